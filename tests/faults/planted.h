#pragma once

#include <map>

#include "support/passing_transport.h"

namespace taxon::test {

/// A bug to be found: whoever has not talked to a peer for `patience` takes the connection for new and loses
/// the first message, as a transport would that drops an acknowledgement after a pause. Without delays nobody
/// pauses that long.
class Forgetful final : public PassingTransport {
 public:
  Forgetful(net::Transport& inner, Duration patience) : PassingTransport(inner), patience_(patience) {}

  using PassingTransport::start;
  void start(net::SendOp& op) override {
    const Instant now = executor().now();
    auto [last, first] = last_.try_emplace(op.peer, now);
    const bool forgotten = !first && now - last->second > patience_;
    last->second = now;
    forgotten ? op.complete() : inner_.start(op);
  }

 private:
  const Duration patience_;
  std::map<Rank, Instant> last_;  // sent to
};

}  // namespace taxon::test
