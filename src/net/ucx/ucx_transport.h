#pragma once

#include <memory>
#include <vector>

#include "net/process_transport.h"
#include "net/ucx/fragment_counts.h"

namespace taxon::net {

/// The real transport: UCX. Ranks with equal `host` share memory; others use RDMA or TCP. Endpoints between
/// hosts are made at their first use. docs/transport.md argues ordering, visibility, sleep and cancellation.
class UcxTransport final : public ProcessTransport {
 public:
  /// Throws Error{Usage} for unknown choices and Error{Transport} when UCX can't start.
  UcxTransport(task::Executor& executor, task::Waits& waits, ProcessTransportOptions options);
  ~UcxTransport() override;

  PeerInfo self() const override;
  void connect(const std::vector<PeerInfo>& peers) override;
  std::uint64_t stale_fragments() const override;

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

  /// REQUIRES: not the own rank.
  FragmentCounts fragments_to(Rank peer) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taxon::net
