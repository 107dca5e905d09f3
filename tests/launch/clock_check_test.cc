#include "launch/clock_check.h"

#include <gtest/gtest.h>

namespace taxon::launch {
namespace {

/// Of a host whose clock is `ahead` seconds ahead, asked at some time of this century. It takes `there` of
/// the way there and back until it looks at its clock.
std::string problem(double ahead, double round_trip, double there = 0.5) {
  const double sent = 1.8e9;
  return clock_problem(sent, sent + there * round_trip + ahead, sent + round_trip);
}

TEST(ClockCheck, AcceptsWhatMayBeWithinTheTolerance) {
  for (const double ahead : {0.0, 0.25, 4.75, 5.0})
    for (const double sign : {1.0, -1.0}) EXPECT_EQ(problem(sign * ahead, 0), "") << sign * ahead;
}

TEST(ClockCheck, SaysHowFarAClockIsOffAndInWhichDirection) {
  EXPECT_EQ(problem(6.5, 0), "its clock is 6.5 s ahead of this host's: synchronise them (NTP)");
  EXPECT_EQ(problem(-6.5, 0), "its clock is 6.5 s behind this host's: synchronise them (NTP)");
  EXPECT_EQ(problem(-3 * 3600.0, 0), "its clock is 3 h 00 min behind this host's: synchronise them (NTP)");
}

TEST(ClockCheck, HoldsAWayThatTookLongAgainstNoClock) {
  for (const double there : {0.0, 0.5, 1.0}) EXPECT_EQ(problem(0, 60, there), "") << there;
  // What the way may explain is left out: this much is sure.
  EXPECT_EQ(problem(12, 4), "its clock is 10.0 s ahead of this host's: synchronise them (NTP)");
  EXPECT_EQ(problem(-12, 4), "its clock is 10.0 s behind this host's: synchronise them (NTP)");
  EXPECT_EQ(problem(7, 4), "");
}

}  // namespace
}  // namespace taxon::launch
