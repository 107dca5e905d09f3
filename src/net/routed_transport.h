#pragma once

#include <memory>
#include <vector>

#include "net/process_transport.h"

namespace taxon::net {

class UcxPeer;
namespace tcp {
class TcpNetwork;
}

/// The real transport: each peer is reached by the network that suits it, UCX for shared memory and RDMA or
/// Taxon's own TCP (a row of transport_choices() says which there are). What comes, comes into one inbox, one
/// page of signals and one table of regions. docs/transport.md argues ordering, visibility, sleep and
/// cancellation.
class RoutedTransport final : public ProcessTransport {
 public:
  /// Throws Error{Usage} for unknown choices and those of other transports, Error{Transport} when a network
  /// can't start.
  RoutedTransport(task::Executor& executor, task::PendingOps& pending, ProcessTransportOptions options);
  ~RoutedTransport() override;

  PeerInfo self() const override;
  void connect(const std::vector<PeerInfo>& peers) override;
  std::uint64_t stale_fragments() const override;
  void drain() override;

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
  task::PendingOps& pending() override;

  bool poll() override;
  int event_fd() override;
  bool arm() override;
  void disarm() override;

  /// How UCX reaches a peer; null where another network does. REQUIRES: not the own rank.
  const UcxPeer* ucx_peer(Rank peer) const;
  /// Null where the choice has none.
  const tcp::TcpNetwork* tcp() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace taxon::net
