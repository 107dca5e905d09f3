#pragma once

#include <map>
#include <optional>
#include <vector>

#include "control/clock.h"
#include "control/event.h"
#include "control/timeouts.h"

namespace taxon::control {

/// Who has been heard of, and when: pure bookkeeping, told the time by its caller. Reports a silent rank
/// once, its return once, its deadline once.
class Liveness {
 public:
  explicit Liveness(const Timeouts& timeouts) : timeouts_(timeouts) {}

  void add(Rank rank, Clock::time_point now);
  void remove(Rank rank) { ranks_.erase(rank); }
  /// A sign of life. Returned, if the rank had been reported.
  std::optional<Event> heard(Rank rank, Clock::time_point now);
  /// Silent and DeadlinePassed since the last call. Call it every heartbeat: when a call comes much later,
  /// this process itself was stopped, and the time that it missed is not held against the others.
  std::vector<Event> check(Clock::time_point now);
  /// The reported ranks and how long they have been silent.
  std::map<Rank, double> silent(Clock::time_point now) const;

 private:
  enum class State { Heard, Silent, Expired };
  struct Entry {
    Clock::time_point last;
    State state = State::Heard;
  };
  Timeouts timeouts_;
  std::map<Rank, Entry> ranks_;
  std::optional<Clock::time_point> last_check_;
};

}  // namespace taxon::control
