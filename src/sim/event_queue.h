#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "task/executor.h"

namespace taxon::sim {

/// What an event calls. It outlives its events.
class Action {
 public:
  virtual void happen(std::uint64_t argument) = 0;

 protected:
  ~Action() = default;
};

/// The virtual family of the door of time: one executor drives every rank of a world on the calling thread.
/// Time is a whole number of picoseconds and jumps from event to event; events at one time happen in the
/// order in which they were made. post() too must be called on this thread, which is the only one of the
/// world.
class EventQueue final : public task::Executor, private Action {
 public:
  EventQueue() = default;
  EventQueue(const EventQueue&) = delete;
  virtual ~EventQueue() = default;

  Instant now() const override { return now_; }
  TimerId resume_at(Instant when, std::coroutine_handle<> who) override;
  void cancel(TimerId timer) override;
  void post(UniqueFunction<void()> work) override;

  /// Where time ends: what would be later is due then, in the order in which it was made.
  static constexpr Instant kEnd{kLongest};
  /// Calls `action` at `when`, or now if that is past; never from inside this call.
  void at(Instant when, Action& action, std::uint64_t argument = 0) {
    push({std::clamp(when, now_, kEnd), next_sequence_++, &action, argument});
  }
  /// Runs the next event if there is one, and it is due by `limit`. False: nothing was run.
  bool step(Instant limit = Instant::max());
  /// True if nothing will ever happen again.
  bool empty();

  std::uint64_t events() const { return events_; }
  /// A hash of every event's time and of what was noted: equal for equal runs.
  std::uint64_t trace() const { return trace_; }
  void note(std::uint64_t word) { trace_ = (trace_ ^ word) * 0x9e3779b97f4a7c15ULL + (trace_ >> 29); }

 private:
  struct Event {
    Instant when;
    std::uint64_t sequence;
    Action* action;
    std::uint64_t argument;
    bool before(const Event& other) const {
      return when != other.when ? when < other.when : sequence < other.sequence;
    }
  };
  struct Timer {
    std::coroutine_handle<> who;  // null: free, or cancelled and still in the queue
    std::uint32_t generation = 0;
  };
  void happen(std::uint64_t timer) override;
  bool is_cancelled(const Event& event) const;
  void free_timer(std::uint64_t index);
  void push(Event event);
  void pop();
  void drop_cancelled();

  Instant now_{};
  std::vector<Event> heap_;  // children of i are 4 i + 1 .. 4 i + 4: half as deep as a binary heap
  std::uint64_t next_sequence_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t trace_ = 0x2545f4914f6cdd1dULL;
  std::vector<Timer> timers_;
  std::vector<std::uint32_t> free_timers_;
  std::deque<UniqueFunction<void()>> posted_;
};

}  // namespace taxon::sim
