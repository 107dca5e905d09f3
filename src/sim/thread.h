#pragma once

#include <deque>
#include <optional>

#include "sim/machine.h"

namespace taxon::sim {

/// What a thread works on when its turn comes.
class ThreadUser {
 public:
  /// Begins the next piece of work, or goes on with it: for how long at full speed, above 0, until this is
  /// called again. Nothing: the piece is over, or there was nothing to do. May push more work.
  virtual std::optional<Duration> go_on() = 0;

 protected:
  ~ThreadUser() = default;
};

/// Where a thread runs, and how much of it.
struct Seat {
  Machine* machine = nullptr;  // null: processors are not modelled
  std::size_t host = 0;        // on the machine
  double cores = 1;            // that it uses at full speed
};

/// One modelled thread: works on pieces one after the other, in the order in which they were pushed, as fast
/// as the cores of its host allow.
class Thread final : private CoreWork, private Action {
 public:
  Thread(EventQueue& queue, Seat seat) : queue_(queue), seat_(seat) {}
  Thread(const Thread&) = delete;
  virtual ~Thread() = default;

  /// Queues a piece of `user`, which lives until it is over. At once if the thread is idle.
  void push(ThreadUser& user);
  /// For how long at full speed it works on what takes `time` of one core.
  Duration from_core(Duration time) const;

 private:
  void work();
  void reached() override { work(); }
  void happen(std::uint64_t) override { work(); }

  EventQueue& queue_;
  const Seat seat_;
  std::deque<ThreadUser*> pieces_;  // the first one is being worked on
  bool working_ = false;
};

}  // namespace taxon::sim
