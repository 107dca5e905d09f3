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
  double full = 1;             // cores that it uses at full speed
  double alone = 1;            // cores that it uses, in the mean, while its host does nothing else
};

/// One modelled thread: works on pieces one after the other, in the order in which they were pushed, as fast
/// as the cores of its host allow.
class Thread final : private Work, private Action {
 public:
  Thread(EventQueue& queue, Seat seat) : queue_(queue), seat_(seat) {}
  Thread(const Thread&) = delete;
  virtual ~Thread() = default;

  /// Queues a piece of `user`, which lives until it is over. At once if the thread is idle.
  void push(ThreadUser& user);
  /// For how long at full speed it is to work on what takes `time` while its host does nothing else.
  Duration from_alone(Duration time) const { return scaled(time, seat_.alone / seat_.full); }
  /// The same of what takes `time` of one core.
  Duration from_core(Duration time) const { return scaled(time, 1 / seat_.full); }

 private:
  static Duration scaled(Duration time, double factor);
  void work();
  void reached() override { work(); }
  void happen(std::uint64_t) override { work(); }

  EventQueue& queue_;
  const Seat seat_;
  std::deque<ThreadUser*> pieces_;  // the first one is being worked on
  bool working_ = false;
};

}  // namespace taxon::sim
