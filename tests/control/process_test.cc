// Ranks as real processes that are killed and stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/child.h"
#include "control/job.h"

namespace taxon::control {
namespace {

using testing::HasSubstr;

constexpr int kLong = 60'000;

class Processes : public testing::Test {
 protected:
  void start(int world, int peer_deadline_ms = kLong) {
    auto port = std::to_string(free_port());
    for (int r = 0; r < world; ++r)
      ranks_.push_back(std::make_unique<Child>(std::vector<std::string>{
          CONTROL_PEER, std::to_string(r), std::to_string(world), port, std::to_string(peer_deadline_ms)}));
    for (auto& rank : ranks_) ASSERT_NE(rank->line_with("joined"), "");
  }
  Child& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  void say_to_all(const std::string& word) {
    for (auto& rank : ranks_) rank->say(word);
  }
  std::vector<std::unique_ptr<Child>> ranks_;
};

TEST_F(Processes, LeaveTogether) {
  start(3);
  say_to_all("exchange");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(rank(r).line_with("exchanged"), "exchanged 3\n");
  say_to_all("leave");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(rank(r).line_with(""), "left\n");
}

TEST_F(Processes, AKilledRankIsNamedEverywhere) {
  start(4);
  rank(2).signal(SIGKILL);
  for (int r : {0, 1, 3}) EXPECT_THAT(rank(r).line_with("event"), HasSubstr("rank 2 was lost"));
  rank(1).say("leave");
  EXPECT_THAT(rank(1).line_with("error"), HasSubstr("error peer-lost: rank 2 was lost"));
  EXPECT_EQ(rank(1).wait(), exit_code(ErrorKind::PeerLost));
}

TEST_F(Processes, AKilledRankZeroIsNamedEverywhere) {
  start(3);
  rank(0).signal(SIGKILL);
  for (int r : {1, 2}) EXPECT_THAT(rank(r).line_with("event"), HasSubstr("rank 0 was lost"));
}

TEST_F(Processes, ARankKilledDuringAnExchangeFailsIt) {
  start(3);
  rank(0).say("exchange");
  rank(2).say("exchange");
  rank(1).signal(SIGKILL);
  for (int r : {0, 2}) EXPECT_THAT(rank(r).line_with("error"), HasSubstr("rank 1 was lost"));
}

TEST_F(Processes, TheFirstOfSeveralIsTheCulprit) {
  start(4);
  rank(3).signal(SIGKILL);
  EXPECT_THAT(rank(1).line_with("event"), HasSubstr("rank 3 was lost"));
  rank(2).signal(SIGKILL);
  rank(1).say("leave");
  EXPECT_THAT(rank(1).line_with("error"), HasSubstr("rank 3 was lost"));
}

TEST_F(Processes, AnAbortOutlivesTheProcess) {
  for (int culprit : {0, 1}) {
    ranks_.clear();
    start(3);
    rank(culprit).say("abort");
    EXPECT_EQ(rank(culprit).line_with("abort"), "aborted\n");
    rank(culprit).signal(SIGKILL);
    for (int r = 0; r < 3; ++r) {
      if (r == culprit) continue;
      EXPECT_THAT(rank(r).line_with("event"), HasSubstr("ended the run (data): train.idx is cut short"));
    }
  }
}

TEST_F(Processes, AStoppedRankIsReportedEachTimeAndTheRunGoesOn) {
  start(3);
  for (int times = 0; times < 2; ++times) {
    rank(2).signal(SIGSTOP);
    for (int r : {0, 1}) EXPECT_NE(rank(r).line_with("event: rank 2 has been silent for"), "");
    rank(2).signal(SIGCONT);
    for (int r : {0, 1}) EXPECT_NE(rank(r).line_with("event: rank 2 is back after"), "");
  }
  say_to_all("exchange");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(rank(r).line_with("exchanged"), "exchanged 3\n");
  say_to_all("leave");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(rank(r).line_with("left"), "left\n");
}

TEST_F(Processes, AStoppedRankZeroIsReportedAndTheRunGoesOn) {
  start(3);
  rank(0).signal(SIGSTOP);
  for (int r : {1, 2}) EXPECT_NE(rank(r).line_with("event: rank 0 has been silent for"), "");
  rank(0).signal(SIGCONT);
  for (int r : {1, 2}) EXPECT_NE(rank(r).line_with("event: rank 0 is back after"), "");
  say_to_all("exchange");
  // Rank 0 was away itself: it blames nobody.
  for (int r = 0; r < 3; ++r) EXPECT_EQ(rank(r).line_with(""), "exchanged 3\n");
}

TEST_F(Processes, ARankThatStaysSilentEndsTheRun) {
  start(3, 5000);
  rank(1).signal(SIGSTOP);
  for (int r : {0, 2}) EXPECT_THAT(rank(r).line_with("longer than"), HasSubstr("rank 1 has been silent"));
  rank(0).say("leave");
  EXPECT_THAT(rank(0).line_with("error"), HasSubstr("error deadline: rank 1"));
  EXPECT_EQ(rank(0).wait(), exit_code(ErrorKind::Deadline));
}

TEST_F(Processes, ASilentRankZeroEndsTheRunToo) {
  start(3, 5000);
  rank(0).signal(SIGSTOP);
  for (int r : {1, 2}) EXPECT_THAT(rank(r).line_with("longer than"), HasSubstr("rank 0 has been silent"));
  rank(1).say("exchange");
  EXPECT_THAT(rank(1).line_with("error"), HasSubstr("error deadline: rank 0"));
}

}  // namespace
}  // namespace taxon::control
