#include "launch/clock_check.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace taxon::launch {

std::string clock_problem(double sent, double there, double received) {
  // It said so at some moment in between.
  const double ahead = there > received ? there - received : there < sent ? there - sent : 0;
  if (std::abs(ahead) <= kClockTolerance) return "";
  return fmt::format("its clock is {} {} this host's: synchronise them (NTP)",
                     format_seconds(std::abs(ahead)), ahead > 0 ? "ahead of" : "behind");
}

}  // namespace taxon::launch
