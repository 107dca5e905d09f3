#pragma once

#include <memory>
#include <string>
#include <vector>

#include "net/transport.h"
#include "net/ucx/fragment_counts.h"
#include "task/poll_loop.h"

namespace taxon::net {

enum class PayloadChecksums { Off, On };

struct UcxOptions {
  Rank rank;
  int world_size = 1;
  /// Names the machine (and what of it can share memory); equal at ranks that may share memory.
  std::string host;
  /// Of this life of the job: messages of another one are thrown away.
  std::uint32_t job_epoch = 0;
  /// "auto", "shm", "posix" or "tcp": a row of transport_choices() (net/transport_choice.h). The user's
  /// UCX_TLS wins.
  std::string transport = "auto";
  /// Network devices as in UCX_NET_DEVICES ("eth0,mlx5_0:1"); empty: all. The user's UCX_NET_DEVICES wins.
  std::string devices;
  /// Peers whose loss somebody else tells of: a broken endpoint to them ends nothing but its operations.
  std::vector<Rank> spared;
  PayloadChecksums payload_checksums = PayloadChecksums::Off;
  /// How much of what this rank sends to another host is on its way: what TCP allows, or what the path can
  /// use (net/ucx/send_window.h), which several senders to one link need, and which costs processor time.
  enum class OnItsWay { AsTcpAllows, AsPathCarries } on_its_way = OnItsWay::AsPathCarries;
  /// How often this rank's loop goes to sleep. Who does so rarely takes the fences of the sleep protocol
  /// (docs/transport.md) upon itself, and peers of its host write to it without.
  enum class Sleeps { Often, Rarely } sleeps = Sleeps::Often;
  std::uint32_t signals = 1024;
};

/// What a rank must know of another to talk to it; carried by the rendezvous.
struct PeerInfo {
  std::vector<std::byte> address;
  std::string host;
};

/// The real transport: UCX. Ranks with equal `host` share memory; others use RDMA or TCP. Endpoints between
/// hosts are made at their first use. docs/transport.md argues ordering, visibility, sleep and cancellation.
///
/// In two phases: construct everywhere, exchange self(), connect() everywhere. allocate() may be called in
/// between; operations may start after connect(). Executor's thread only; must be added to the poll loop
/// while operations are in flight. After the rank's Waits are cancelled it is only good for destruction. A
/// clean destruction waits up to two seconds for what was sent to leave this process.
class UcxTransport final : public Transport, public task::Pollable {
 public:
  /// Throws Error{Usage} for unknown choices and Error{Transport} when UCX can't start.
  UcxTransport(task::Executor& executor, task::Waits& waits, UcxOptions options);
  ~UcxTransport() override;

  PeerInfo self() const;
  /// `peers` by rank, the own one included. Throws Error{Mismatch} for addresses that are not of this
  /// version, Error{Transport} when a peer of this host can't be reached.
  void connect(const std::vector<PeerInfo>& peers);

  void start(SendOp& op) override;
  void start(RecvOp& op) override;
  void start(PutOp& op) override;
  void start(AwaitSignalOp& op) override;
  bool raise_now(RemoteSignal signal, std::uint64_t value) override;
  void forget(Op& op) override;

  Region allocate(std::size_t size) override;
  View map(const RemoteRegion& region) override;
  std::uint32_t signals() const override;
  std::uint64_t signal(std::uint32_t index) const override;
  /// Of a peer on another host it is known once something was sent there; before, it names the candidates.
  Path path(Rank peer) const override;
  const Traffic& traffic() const override;
  void count_stored(std::size_t bytes) override;
  Rank rank() const override;
  int world_size() const override;
  task::Executor& executor() override;
  task::Waits& waits() override;

  bool poll() override;
  int event_fd() override;
  bool arm() override;
  void disarm() override;

  /// Messages of other job epochs that came and were thrown away.
  std::uint64_t stale_messages() const;
  /// REQUIRES: not the own rank.
  FragmentCounts fragments_to(Rank peer) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taxon::net
