#pragma once

#include <chrono>
#include <cstdint>

namespace taxon {

/// Time as the executor tells it, in whole picoseconds, so that virtual time adds up exactly.
/// An int64 of picoseconds spans 106 days; an executor's clock starts at 0 when the process starts.
using Duration = std::chrono::duration<std::int64_t, std::pico>;

/// Names the clock of an executor. It has no now(): only an Executor can be asked for the time.
struct RunClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<RunClock, Duration>;
  static constexpr bool is_steady = true;
};
using Instant = RunClock::time_point;

/// Seconds as a plain number, for reports and cost estimates.
constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) * 1e-12; }
/// The nearest picosecond.
constexpr Duration from_seconds(double s) {
  return Duration(static_cast<std::int64_t>(s * 1e12 + (s < 0 ? -0.5 : 0.5)));
}

}  // namespace taxon
