#pragma once

#include <chrono>
#include <cstdint>

namespace taxon::control {

/// The clock of life signs, timeouts and estimates.
using Clock = std::chrono::steady_clock;

inline double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

/// Since the clock's own beginning: what `ClockEstimate` compares between hosts.
inline std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace taxon::control
