#pragma once

#include <string>

namespace taxon::launch {

/// Seconds by which two hosts' clocks may differ before a job refuses to start.
inline constexpr double kClockTolerance = 5;
/// What is wrong with a clock that said `there` (seconds since 1970) between `sent` and `received` of ours;
/// or nothing.
std::string clock_problem(double sent, double there, double received);

}  // namespace taxon::launch
