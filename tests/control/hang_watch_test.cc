#include "control/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace taxon::control {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

/// Rank 0 of three has waited for `culprit` for longer than anyone may.
WaitPicture hang_of(int culprit) {
  return {.world_size = 3, .waits = {{Rank(0), {{"all_reduce ring", Rank(culprit), "bucket 3", 60}}}}};
}

class HangWatchTest : public testing::Test {
 protected:
  static Clock::time_point at(int second) { return Clock::time_point(seconds(1000 + second)); }
  /// Looks every second of [begin, end) and says in which there was a report.
  std::vector<int> reports(int begin, int end, const WaitPicture& picture) {
    std::vector<int> found;
    for (int second = begin; second < end; ++second)
      if (watch_.look(picture, at(second))) found.push_back(second);
    return found;
  }
  HangWatch watch_{seconds(8)};
};

TEST_F(HangWatchTest, AHangThatLastsIsReportedAgainAfterGrowingPauses) {
  EXPECT_THAT(reports(0, 60, hang_of(2)), ElementsAre(0, 8, 24, 56));
}

TEST_F(HangWatchTest, OtherCulpritsAreNews) {
  EXPECT_THAT(reports(0, 3, hang_of(2)), ElementsAre(0));
  EXPECT_THAT(reports(3, 12, hang_of(1)), ElementsAre(3, 11));
}

TEST_F(HangWatchTest, AHangAfterProgressIsNews) {
  EXPECT_THAT(reports(0, 10, hang_of(2)), ElementsAre(0, 8));
  EXPECT_THAT(reports(10, 11, {.world_size = 3}), IsEmpty());
  EXPECT_THAT(reports(11, 30, hang_of(2)), ElementsAre(11, 19));
}

TEST_F(HangWatchTest, AfterAReturnThereIsCalm) {
  watch_.calm(at(0));
  EXPECT_THAT(reports(0, 8, hang_of(2)), IsEmpty());
  EXPECT_THAT(reports(8, 9, {.world_size = 3}), IsEmpty());
}

TEST_F(HangWatchTest, WhoIsSilentAgainAfterItsReturnIsReportedAsSoonAsTheCalmIsOver) {
  EXPECT_THAT(reports(0, 10, hang_of(2)), ElementsAre(0, 8));
  watch_.calm(at(10));
  // Nobody looked while all was well; the pauses begin anew all the same.
  EXPECT_THAT(reports(15, 40, hang_of(2)), ElementsAre(18, 26));
}

TEST_F(HangWatchTest, EveryReturnBeginsTheCalmAnew) {
  watch_.calm(at(0));
  watch_.calm(at(6));
  EXPECT_THAT(reports(0, 20, hang_of(2)), ElementsAre(14));
}

}  // namespace
}  // namespace taxon::control
