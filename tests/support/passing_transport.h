#pragma once

#include "net/transport.h"

namespace taxon::test {

/// Hands everything on: a base for transports with a planted bug.
class PassingTransport : public net::Transport {
 public:
  explicit PassingTransport(net::Transport& inner) : inner_(inner) {}

  void start(net::SendOp& op) override { inner_.start(op); }
  void start(net::RecvOp& op) override { inner_.start(op); }
  void start(net::PutOp& op) override { inner_.start(op); }
  void start(net::AwaitSignalOp& op) override { inner_.start(op); }
  void forget(net::Op& op) override { inner_.forget(op); }
  net::Region allocate(std::size_t size) override { return inner_.allocate(size); }
  View map(const net::RemoteRegion& region) override { return inner_.map(region); }
  std::uint32_t signals() const override { return inner_.signals(); }
  std::uint64_t signal(std::uint32_t index) const override { return inner_.signal(index); }
  net::Path path(Rank peer) const override { return inner_.path(peer); }
  const net::Traffic& traffic() const override { return inner_.traffic(); }
  void count_stored(std::size_t bytes) override { inner_.count_stored(bytes); }
  Rank rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  task::Executor& executor() override { return inner_.executor(); }
  task::PendingOps& pending() override { return inner_.pending(); }

 protected:
  net::Transport& inner_;
};

}  // namespace taxon::test
