#pragma once

#include <string>
#include <vector>

#include "net/local_address.h"
#include "net/transport.h"
#include "task/poll_loop.h"

namespace taxon::net {

enum class PayloadChecksums { Off, On };

/// What a transport between processes is made with.
struct ProcessTransportOptions {
  Rank rank;
  int world_size = 1;
  /// Names the machine (and what of it can share memory); equal at ranks that may share memory.
  std::string host;
  /// Of this life of the job: messages of another one are thrown away.
  std::uint32_t job_epoch = 0;
  /// A row of transport_choices() (net/transport_choice.h). The user's UCX_TLS wins over rows of UCX's.
  std::string transport = "auto";
  /// The numeric address by which ranks of other hosts reach this one (net/local_address.h): nothing else is
  /// listened at but loopback. With a loopback address nothing beyond this machine is opened.
  std::string address = kLoopbackAddress;
  /// Of all ranks. Several may be at loopback: containers of one machine that share its network.
  enum class Hosts { One, Several } hosts = Hosts::One;
  /// Peers whose loss somebody else tells of: a broken connection to them ends nothing but its operations.
  std::vector<Rank> expendable;
  PayloadChecksums payload_checksums = PayloadChecksums::Off;
  /// What Taxon's own TCP proves to peers, and peers to it. Empty: what the rendezvous hands to ranks is
  /// proof enough, as on one host.
  std::vector<unsigned char> secret;
  /// Of all that goes to other hosts, which then goes over Taxon's own TCP.
  enum class Encryption { None, Tls } encryption = Encryption::None;
  /// From this rank to each other over Taxon's own TCP; 0: as many as the path needs.
  int connections = 0;
  /// How much of what this rank sends to another host is on its way: what TCP allows, or what the path
  /// can use (net/wire/send_window.h), which several senders to one link need, and which costs processor
  /// time.
  enum class OnItsWay { AsTcpAllows, AsPathCarries } on_its_way = OnItsWay::AsPathCarries;
  /// UCX's: how often this rank's loop goes to sleep. Who does so rarely takes the fences of the sleep
  /// protocol (docs/transport.md) upon itself, and peers of its host write to it without.
  enum class Sleeps { Often, Rarely } sleeps = Sleeps::Often;
  /// Of 128 bytes each: one for each member of the channel of each bucket.
  std::uint32_t signals = 2048;
};

/// What a rank must know of another to talk to it; carried by the rendezvous.
struct PeerInfo {
  std::vector<std::byte> address;
  std::string host;
};

/// A transport whose ranks are processes. In two phases: construct everywhere, exchange self(), connect()
/// everywhere. allocate() may be called in between; operations may start after connect(). Executor's thread
/// only; must be added to the poll loop while operations are in flight. After the rank's PendingOps are
/// cancelled it is only good for destruction. A clean destruction drains.
class ProcessTransport : public Transport, public task::Pollable {
 public:
  virtual PeerInfo self() const = 0;
  /// `peers` by rank, the own one included. Throws Error{Mismatch} for addresses that are not of this
  /// version, Error{Transport} when a peer of this host can't be reached.
  virtual void connect(const std::vector<PeerInfo>& peers) = 0;
  /// Fragments of other job epochs that came and were thrown away.
  virtual std::uint64_t stale_fragments() const = 0;
  /// Progresses until what was sent has left this process, for at most two seconds. An operation is done once
  /// its payload is the caller's again; the network may hold a copy until the peer looks. For a rank that
  /// stops polling for a while, or its peers wait as long for that copy.
  virtual void drain() = 0;
};

}  // namespace taxon::net
