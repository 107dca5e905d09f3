#include "control/diagnose.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace taxon::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ReportedWait wait_for(int peer, double seconds) {
  return {"all_reduce ring", Rank(peer), "bucket 3", seconds};
}

std::string text_of(const std::optional<HangReport>& report) {
  return report ? fmt::format("{}", fmt::join(report->lines, "\n")) : "no report";
}

TEST(Diagnose, ShortWaitsAreNormal) {
  WaitPicture picture{.world_size = 2};
  picture.waits[Rank(0)] = {wait_for(1, 7.9)};
  EXPECT_FALSE(diagnose(picture));
}

TEST(Diagnose, TheEndOfTheChainIsTheCulprit) {
  WaitPicture picture{.world_size = 4};
  picture.waits[Rank(0)] = {wait_for(1, 9)};
  picture.waits[Rank(1)] = {wait_for(2, 9)};
  picture.waits[Rank(3)] = {wait_for(2, 9)};
  picture.waits[Rank(2)] = {{"read", {}, "train-images.gz", 10}};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(2)));
  EXPECT_THAT(text_of(report), HasSubstr("nothing has moved for 10.0 s: rank 2 holds up the others"));
  EXPECT_THAT(text_of(report), HasSubstr("rank 0 waits for rank 1 in all_reduce ring, bucket 3, for 9.0 s"));
  EXPECT_THAT(text_of(report),
              HasSubstr("rank 2 waits for no rank that it can name; it is in read, train-images.gz"));
}

TEST(Diagnose, ACulpritThatReportsNothingIsNamedToo) {
  WaitPicture picture{.world_size = 2};
  picture.waits[Rank(1)] = {wait_for(0, 9)};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(0)));
  EXPECT_THAT(text_of(report), HasSubstr("rank 0 waits for nothing"));
}

TEST(Diagnose, ASilentRankIsBlamedWhateverItSaidLast) {
  WaitPicture picture{.world_size = 3, .silent = {{Rank(1), 6.0}}};
  picture.waits[Rank(0)] = {wait_for(1, 9)};
  picture.waits[Rank(1)] = {wait_for(2, 9)};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(1)));
  EXPECT_THAT(text_of(report), HasSubstr("rank 1 has been silent for 6.0 s"));
}

TEST(Diagnose, ASilentRankNeedsHalfThePatience) {
  WaitPicture picture{.world_size = 2, .silent = {{Rank(1), 5.0}}};
  picture.waits[Rank(0)] = {wait_for(1, 3.9)};
  EXPECT_FALSE(diagnose(picture));
  picture.waits[Rank(0)] = {wait_for(1, 4.1)};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(1)));
}

TEST(Diagnose, ASilentRanksOtherVictimsMayHaveReportedASecondEarlier) {
  WaitPicture picture{.world_size = 3, .silent = {{Rank(2), 5.0}}};
  picture.waits[Rank(0)] = {{"all_reduce", Rank(2), "the step's vote", 4.1}};
  picture.waits[Rank(1)] = {wait_for(2, 3.2)};
  EXPECT_THAT(text_of(diagnose(picture)), HasSubstr("rank 1 waits for rank 2 in all_reduce ring, bucket 3"));
}

TEST(Diagnose, TheWaitsOfOthersKeepTheirPatienceBesideASilentRank) {
  WaitPicture picture{.world_size = 3, .silent = {{Rank(2), 5.0}}};
  picture.waits[Rank(0)] = {wait_for(1, 7.9)};
  EXPECT_FALSE(diagnose(picture));
}

TEST(Diagnose, ACircleIsADeadlock) {
  WaitPicture picture{.world_size = 4};
  picture.waits[Rank(0)] = {wait_for(1, 9)};
  picture.waits[Rank(1)] = {wait_for(2, 9)};
  picture.waits[Rank(2)] = {wait_for(1, 9)};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(1), Rank(2)));
  EXPECT_THAT(text_of(report), HasSubstr("a deadlock, ranks 1 and 2 wait for each other: 1 -> 2 -> 1"));
}

TEST(Diagnose, WithoutNamedPeersWhoIsNotWaitingIsTheCulprit) {
  WaitPicture picture{.world_size = 3};
  picture.waits[Rank(0)] = {{"barrier", {}, "", 9}};
  picture.waits[Rank(2)] = {{"barrier", {}, "", 9}};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(1)));
}

TEST(Diagnose, WhoLeftWhileOthersWaitForItIsNamed) {
  WaitPicture picture{.world_size = 2, .left = {Rank(1)}};
  picture.waits[Rank(0)] = {wait_for(1, 9)};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(1)));
  EXPECT_THAT(text_of(report), HasSubstr("rank 1 has left the job"));
}

TEST(Diagnose, AYoungerWaitBelongsToTheSameHang) {
  WaitPicture picture{.world_size = 3};
  picture.waits[Rank(0)] = {wait_for(1, 8.1)};
  picture.waits[Rank(1)] = {wait_for(2, 7.2)};
  auto report = diagnose(picture);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->culprits, ElementsAre(Rank(2)));
}

}  // namespace
}  // namespace taxon::control
