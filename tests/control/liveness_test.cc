#include "control/liveness.h"

#include <gtest/gtest.h>

#include "control/clock_estimate.h"

namespace taxon::control {
namespace {

using std::chrono::seconds;

class LivenessTest : public testing::Test {
 protected:
  /// Calls check() every second up to `until`, with the ranks in `alive` heard each time.
  std::vector<std::string> run(int until, std::vector<int> alive) {
    std::vector<std::string> lines;
    for (; second_ <= until; ++second_) {
      for (int rank : alive)
        if (auto event = liveness_.heard(Rank(rank), at(second_))) lines.push_back(describe(*event));
      for (const Event& event : liveness_.check(at(second_))) lines.push_back(describe(event));
    }
    return lines;
  }
  static Clock::time_point at(int second) { return Clock::time_point(seconds(1000 + second)); }

  Liveness liveness_{Timeouts{.silence = seconds(5), .peer = seconds(20), .heartbeat = seconds(1)}};
  int second_ = 1;
};

TEST_F(LivenessTest, SilenceIsReportedOnceAndSoIsTheReturn) {
  liveness_.add(Rank(1), at(0));
  liveness_.add(Rank(2), at(0));
  EXPECT_TRUE(run(4, {1, 2}).empty());
  auto silent = run(12, {1});
  ASSERT_EQ(silent.size(), 1u);
  EXPECT_NE(silent[0].find("rank 2 has been silent for 5.0 s"), std::string::npos) << silent[0];
  EXPECT_EQ(liveness_.silent(at(12)).count(Rank(2)), 1u);
  auto back = run(14, {1, 2});
  ASSERT_EQ(back.size(), 1u);
  EXPECT_NE(back[0].find("rank 2 is back after 9.0 s"), std::string::npos) << back[0];
  EXPECT_TRUE(liveness_.silent(at(14)).empty());
}

TEST_F(LivenessTest, TheDeadlineComesOnce) {
  liveness_.add(Rank(1), at(0));
  auto lines = run(40, {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[1].find("rank 1 has been silent for 20.0 s, longer than"), std::string::npos) << lines[1];
}

TEST_F(LivenessTest, WhoWasStoppedItselfBlamesNobody) {
  liveness_.add(Rank(1), at(0));
  EXPECT_TRUE(run(3, {1}).empty());
  second_ = 60;  // nearly a minute of SIGSTOP
  EXPECT_TRUE(run(63, {}).empty());
  EXPECT_EQ(run(70, {}).size(), 1u);
}

TEST_F(LivenessTest, NorWhoWasStoppedRightAfterTheStart) {
  liveness_.add(Rank(1), at(0));
  second_ = 60;
  EXPECT_TRUE(run(60, {}).empty());
}

TEST_F(LivenessTest, WhoLeftIsNotMissed) {
  liveness_.add(Rank(1), at(0));
  liveness_.remove(Rank(1));
  EXPECT_TRUE(run(40, {}).empty());
  EXPECT_FALSE(liveness_.heard(Rank(1), at(41)));
}

TEST(ClockEstimate, TheFastestRoundTripDecides) {
  ClockEstimate clock;
  EXPECT_EQ(clock.offset(), 0);
  // The other clock is 1000 ahead. 10 there, 10 back; the other sample was held up for 500 on its way there.
  clock.add({.sent_here = 0, .seen_there = 1510, .sent_there = 1520, .seen_here = 530});
  EXPECT_EQ(clock.offset(), 1250);
  clock.add({.sent_here = 1000, .seen_there = 2010, .sent_there = 2100, .seen_here = 1110});
  EXPECT_EQ(clock.offset(), 1000);
  clock.add({.sent_here = 2000, .seen_there = 3010, .sent_there = 3020, .seen_here = 2900});
  EXPECT_EQ(clock.offset(), 1000);
}

}  // namespace
}  // namespace taxon::control
