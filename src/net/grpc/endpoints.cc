#include "net/grpc/endpoints.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "net/wire/wire.h"

namespace taxon::net {
namespace {

constexpr std::uint32_t kMagic = 0x47525000 | kWireVersion;  // "\2PRG" in memory
constexpr std::uint32_t kLoopbackNet = 127;

struct CardHead {
  std::uint32_t magic = kMagic;
  std::uint32_t endpoints = 0;
  std::uint64_t token[2] = {};
};
static_assert(sizeof(CardHead) == 24 && sizeof(Endpoint) == 8);

std::uint32_t number(const sockaddr* address) {
  sockaddr_in in{};
  std::memcpy(&in, address, sizeof in);
  return ntohl(in.sin_addr.s_addr);
}

bool on_loopback(std::uint32_t address) { return address >> 24 == kLoopbackNet; }

}  // namespace

std::vector<Interface> find_interfaces(const std::string& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw Error(ErrorKind::Transport, "the network interfaces can't be listed");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &freeifaddrs);
  in_addr in{};
  if (inet_pton(AF_INET, address.c_str(), &in) != 1)
    throw Error(ErrorKind::Transport,
                fmt::format("gRPC's transports need IPv4, and this rank's address is {}", address));
  const std::uint32_t own = ntohl(in.s_addr);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0;
    if (!up || entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const std::uint32_t here = number(entry->ifa_addr);
    if (here == own || on_loopback(here))
      found.push_back({entry->ifa_name, here, number(entry->ifa_netmask)});
  }
  if (found.empty())
    throw Error(ErrorKind::Transport,
                fmt::format("no interface that is up has the address {}: ip link set lo up", address));
  return found;
}

std::string text_of(const Endpoint& endpoint) {
  const in_addr in{htonl(endpoint.address)};
  char buffer[INET_ADDRSTRLEN];
  return fmt::format("{}:{}", inet_ntop(AF_INET, &in, buffer, sizeof buffer), endpoint.port);
}

std::vector<std::byte> GrpcCard::pack() const {
  CardHead head;
  head.endpoints = static_cast<std::uint32_t>(endpoints.size());
  std::copy(token.begin(), token.end(), head.token);
  std::vector<std::byte> bytes(sizeof head + endpoints.size() * sizeof(Endpoint));
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!endpoints.empty())
    std::memcpy(bytes.data() + sizeof head, endpoints.data(), bytes.size() - sizeof head);
  return bytes;
}

GrpcCard GrpcCard::unpack(ConstView bytes) {
  CardHead head;
  if (bytes.size() < sizeof head) throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kMagic)
    throw Error(ErrorKind::Mismatch, "the ranks run versions of Taxon with different wire formats");
  if (bytes.size() != sizeof head + head.endpoints * sizeof(Endpoint))
    throw Error(ErrorKind::Mismatch, "the address of a rank is cut short");
  GrpcCard card{{head.token[0], head.token[1]}, std::vector<Endpoint>(head.endpoints)};
  if (head.endpoints > 0)
    std::memcpy(card.endpoints.data(), bytes.data() + sizeof head, bytes.size() - sizeof head);
  return card;
}

std::vector<Endpoint> reachable(const std::vector<Endpoint>& theirs, Locality place,
                                const std::vector<Interface>& mine) {
  std::vector<Endpoint> found = theirs;
  auto is_mine = [&](const Endpoint& there) {
    return std::any_of(mine.begin(), mine.end(),
                       [&](const Interface& own) { return own.address == there.address; });
  };
  auto shares_network = [&](const Endpoint& there) {
    return std::any_of(mine.begin(), mine.end(),
                       [&](const Interface& own) { return ((own.address ^ there.address) & own.mask) == 0; });
  };
  if (place == Locality::SameHost) {
    std::stable_partition(found.begin(), found.end(),
                          [](const Endpoint& there) { return on_loopback(there.address); });
    return found;
  }
  std::erase_if(found, [&](const Endpoint& there) { return on_loopback(there.address) || is_mine(there); });
  std::stable_partition(found.begin(), found.end(), shares_network);
  return found;
}

std::string target_of(const std::vector<Endpoint>& endpoints) {
  std::string target = "ipv4:";
  for (const Endpoint& one : endpoints) target += (&one == &endpoints.front() ? "" : ",") + text_of(one);
  return target;
}

std::string interface_towards(const std::string& grpc_address, const std::vector<Interface>& mine) {
  const auto begin = grpc_address.find(':'), end = grpc_address.rfind(':');
  if (begin == std::string::npos || begin == end) return {};
  in_addr in{};
  if (inet_pton(AF_INET, grpc_address.substr(begin + 1, end - begin - 1).c_str(), &in) != 1) return {};
  const std::uint32_t there = ntohl(in.s_addr);
  for (const Interface& own : mine)
    if (((own.address ^ there) & own.mask) == 0) return own.name;
  return {};
}

}  // namespace taxon::net
