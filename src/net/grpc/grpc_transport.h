#pragma once

#include <memory>
#include <vector>

#include "net/process_transport.h"

namespace taxon::net {

/// A transport to compare UCX with and to debug with: the same headers and fragments as over UCX, but as
/// bytes of gRPC calls, between all ranks over TCP, also within a host. No memory is shared: puts travel as
/// messages. Every rank listens and calls every other. gRPC has threads of its own, which never touch the
/// caller's memory. docs/transport.md.
class GrpcTransport final : public ProcessTransport {
 public:
  enum class Calls {
    Streaming,  // one call to each peer, in which all fragments travel
    Unary       // one call for each fragment, one at a time to each peer
  };
  /// Listens. Throws Error{Transport} when it can't.
  GrpcTransport(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions options,
                Calls calls);
  ~GrpcTransport() override;

  PeerInfo self() const override;
  void connect(const std::vector<PeerInfo>& peers) override;
  std::uint64_t stale_fragments() const override;
  void drain() override;

  void start(SendOp& op) override;
  void start(RecvOp& op) override;
  void start(PutOp& op) override;
  void start(AwaitSignalOp& op) override;
  void forget(Op& op) override;

  Region allocate(std::size_t size) override;
  /// Empty but for own regions.
  View map(const RemoteRegion& region) override;
  std::uint32_t signals() const override;
  std::uint64_t signal(std::uint32_t index) const override;
  /// Names the interface once the connection is made.
  Path path(Rank peer) const override;
  const Traffic& traffic() const override;
  void count_stored(std::size_t bytes) override;
  Rank rank() const override;
  int world_size() const override;
  task::Executor& executor() override;
  task::PendingOps& pending() override;

  bool poll() override;
  int event_fd() override;
  bool arm() override;
  void disarm() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taxon::net
