#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/view.h"

namespace taxon::net {

/// An IPv4 address of this host that is up. Numbers in the host's byte order.
struct Interface {
  std::string name;
  std::uint32_t address = 0;
  std::uint32_t mask = 0;
};
/// Those where a rank listens whose address in the job is `address`: that one and loopback, in the kernel's
/// order. Throws Error{Transport} where there is neither, or it is not IPv4.
std::vector<Interface> find_interfaces(const std::string& address);

/// Where a rank listens.
struct Endpoint {
  std::uint32_t address = 0;
  std::uint32_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// "10.0.0.2:40000".
std::string text_of(const Endpoint& endpoint);

/// What a rank tells its peers before the first message.
struct GrpcCard {
  /// Proves to a listener that the caller was told of it by the rendezvous.
  std::array<std::uint64_t, 2> token{};
  std::vector<Endpoint> endpoints;

  std::vector<std::byte> pack() const;
  /// Throws Error{Mismatch} when the bytes are not a card of this wire version.
  static GrpcCard unpack(ConstView bytes);
};

enum class Locality { SameHost, OtherHost };
/// The endpoints of a peer that may be reached from here, best first: on one host over loopback, otherwise by
/// a network that both are in. Addresses that this host has itself lead nowhere else (bridges of containers
/// have the same on many hosts).
std::vector<Endpoint> reachable(const std::vector<Endpoint>& theirs, Locality place,
                                const std::vector<Interface>& mine);

/// "ipv4:10.0.0.2:40000,10.0.1.2:40001", which gRPC tries one after the other.
std::string target_of(const std::vector<Endpoint>& endpoints);
/// The interface that leads to what gRPC calls "ipv4:10.0.0.2:40000"; empty if none is known.
std::string interface_towards(const std::string& grpc_address, const std::vector<Interface>& mine);

}  // namespace taxon::net
