#pragma once

#include <algorithm>
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
/// What is computed from people's figures is no longer (13 days), so that sums of seven are still times.
constexpr Duration kLongest{std::int64_t{1} << 60};
/// The nearest whole one, at most kLongest.
constexpr Duration from_picoseconds(double ps) {
  constexpr auto kMost = static_cast<double>(kLongest.count());
  return Duration(static_cast<std::int64_t>(std::clamp(ps + (ps < 0 ? -0.5 : 0.5), -kMost, kMost)));
}
/// The nearest picosecond, at most kLongest.
constexpr Duration from_seconds(double s) { return from_picoseconds(s * 1e12); }

}  // namespace taxon
