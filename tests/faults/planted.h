#pragma once

#include <map>

#include "support/passing_transport.h"

namespace taxon::test {

/// A bug to be found: something happens to the first message after a pause of more than `patience` in what a
/// rank sends to a peer. Without delays nobody pauses that long.
class AfterPause : public PassingTransport {
 public:
  AfterPause(net::Transport& inner, Duration patience) : PassingTransport(inner), patience_(patience) {}

  using PassingTransport::start;
  void start(net::SendOp& op) final {
    if (!concerns(op)) return inner_.start(op);
    const Instant now = executor().now();
    auto [last, first] = last_.try_emplace(op.peer, now);
    const bool paused = !first && now - last->second > patience_;
    last->second = now;
    paused ? send_after_pause(op) : inner_.start(op);
  }

 protected:
  virtual bool concerns(const net::SendOp&) const { return true; }
  virtual void send_after_pause(net::SendOp& op) = 0;

 private:
  const Duration patience_;
  std::map<Rank, Instant> last_;  // sent to
};

/// The message is lost, as by a transport that takes the connection for new and drops an acknowledgement.
class Forgetful final : public AfterPause {
 public:
  using AfterPause::AfterPause;

 private:
  void send_after_pause(net::SendOp& op) override { op.complete(); }
};

/// The sum in it is changed, as by somebody who writes into a buffer that is being sent.
class Scribbling final : public AfterPause {
 public:
  using AfterPause::AfterPause;

 private:
  bool concerns(const net::SendOp& op) const override {
    return op.type == DType::Float32 && !op.payload.empty();
  }
  void send_after_pause(net::SendOp& op) override {
    const_cast<std::byte&>(op.payload.data()[op.payload.size() - 2]) ^= std::byte{0x10};
    inner_.start(op);
  }
};

}  // namespace taxon::test
