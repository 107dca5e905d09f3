#pragma once

#include <list>
#include <memory>
#include <set>
#include <vector>

#include "base/rng.h"
#include "net/transport.h"
#include "net/waker.h"

namespace taxon::net {

struct FaultyOptions {
  std::uint64_t seed = 0;
  /// Each send and put is held back for a uniform time up to this, in order among those with one receiver and
  /// tag (messages) or one receiver (puts).
  Duration longest_delay{0};
  /// Probability that a message arrives with half of its payload.
  double cut = 0;
  /// Probability that a message arrives with one byte changed.
  double corrupt = 0;
  /// What paths say that fills them; 0: what the inner transport's say.
  std::size_t in_flight = 0;
};

/// A transport with faults, for tests: what goes wrong is a function of the seed and of the order of calls.
/// Sends and puts pass through it; what it does not delay or damage is the inner transport's own. The inner
/// transport outlives it, and it outlives every operation. Executor's thread only.
class FaultyTransport final : public Transport {
 public:
  FaultyTransport(Transport& inner, FaultyOptions options);
  ~FaultyTransport() override;

  /// From now on operations with `peer` fail with Error{PeerLost}, and the rank's PendingOps are cancelled
  /// with it, as a broken endpoint does. Not from inside an operation's constructor.
  void lose(Rank peer);

  void start(SendOp& op) override;
  void start(RecvOp& op) override;
  void start(PutOp& op) override;
  void start(AwaitSignalOp& op) override;
  void forget(Op& op) override;

  Region allocate(std::size_t size) override { return inner_.allocate(size); }
  View map(const RemoteRegion& region) override { return inner_.map(region); }
  std::uint32_t signals() const override { return inner_.signals(); }
  std::uint64_t signal(std::uint32_t index) const override { return inner_.signal(index); }
  Path path(Rank peer) const override;
  const Traffic& traffic() const override { return inner_.traffic(); }
  void count_stored(std::size_t bytes) override { inner_.count_stored(bytes); }
  Rank rank() const override { return inner_.rank(); }
  int world_size() const override { return inner_.world_size(); }
  task::Executor& executor() override { return inner_.executor(); }
  task::PendingOps& pending() override { return inner_.pending(); }

 private:
  struct Held {
    Instant due;
    SendOp* send = nullptr;  // one of the two
    PutOp* put = nullptr;
  };
  /// A damaged message that travels instead of the caller's.
  struct Damaged {
    std::vector<std::byte> bytes;
    std::unique_ptr<SendOp> op;
  };
  bool fail_if_lost(Op& op);
  void hold(Held held);
  void deliver_due();
  void deliver(SendOp& op);

  Transport& inner_;
  FaultyOptions options_;
  Rng rng_;
  Waker waker_;
  std::list<Held> held_;  // by due time, then by call
  std::list<Damaged> damaged_;
  std::set<Rank> lost_;
};

}  // namespace taxon::net
