#include "exchange/replay/server_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace taxon::exchange {
namespace {

using Kind = AsyncEvent::Kind;
using Workers = std::vector<ServerReplay::Worker>;

constexpr std::int32_t kUnit = 3;

/// Of a server of two workers; what was applied goes with its update.
ServerReplay replay_of(std::vector<std::pair<Kind, int>> acts) {
  AsyncEvents events;
  for (auto [kind, worker] : acts) events.push_back({kind, kUnit, worker, 0});
  events.push_back({Kind::Admit, kUnit + 1, 0, 0});
  return {"w", events, kUnit};
}

std::string refusal(const ServerReplay& replay, const Workers& workers, bool full = false) {
  try {
    replay.next(workers, full);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
    return error.what();
  }
  return "";
}

TEST(ServerReplay, WaitsForTheWorkerThatIsNextAndForNoOther) {
  ServerReplay replay = replay_of({{Kind::Admit, 1}, {Kind::Admit, 0}});
  Workers workers(2);
  EXPECT_EQ(replay.next(workers, false), nullptr);
  workers[0] = {.came = true, .waits = true};
  EXPECT_EQ(replay.next(workers, false), nullptr) << "worker 0 is not next";
  workers[1] = {.came = true, .waits = true};
  ASSERT_NE(replay.next(workers, false), nullptr);
  EXPECT_EQ(replay.next(workers, false)->worker, 1);
  replay.done(Kind::Admit);
  EXPECT_EQ(replay.next(workers, false)->worker, 0);
  EXPECT_EQ(replay.where(), "1 of 2");
}

/// When a contribution came is told as soon as it is there.
TEST(ServerReplay, TellsTheTimeOfAContributionThatIsThere) {
  ServerReplay replay = replay_of({{Kind::Time, 1}, {Kind::Admit, 1}});
  Workers workers(2);
  EXPECT_EQ(replay.next(workers, false), nullptr);
  workers[1] = {.came = true, .waits = true};
  EXPECT_EQ(replay.next(workers, false)->kind, Kind::Time);
  replay.done(Kind::Time);
  EXPECT_EQ(replay.next(workers, false)->kind, Kind::Admit);
}

TEST(ServerReplay, IsOverWhenAllWasDone) {
  ServerReplay replay = replay_of({{Kind::Update, 0}, {Kind::Apply, 1}, {Kind::Answer, 1}});
  Workers workers(2);
  workers[1].waits = true;
  EXPECT_EQ(replay.next(workers, true)->kind, Kind::Update);
  replay.done(Kind::Update);
  EXPECT_THROW(replay.finish(), Error);
  EXPECT_EQ(replay.next(workers, false)->kind, Kind::Answer);
  replay.done(Kind::Answer);
  workers[1].waits = false;
  EXPECT_EQ(replay.next(workers, false), nullptr);
  replay.finish();
  workers[0].came = true;
  EXPECT_THAT(refusal(replay, workers), testing::HasSubstr("beyond the order's end"));
}

TEST(ServerReplay, RefusesWhatCanNeverBeDone) {
  Workers workers(2);
  EXPECT_THAT(refusal(replay_of({{Kind::Update, 0}}), workers), testing::HasSubstr("nothing to update with"));
  EXPECT_THAT(refusal(replay_of({{Kind::Answer, 1}}), workers), testing::HasSubstr("worker 1 has no answer"));
  EXPECT_THAT(refusal(replay_of({{Kind::Admit, 2}}), workers), testing::HasSubstr("worker 2 of 2"));
  EXPECT_THAT(refusal(replay_of({{Kind::Turn, 0}}), workers), testing::IsEmpty()) << "not a server's";
  workers[0].closed = true;
  EXPECT_THAT(refusal(replay_of({{Kind::Admit, 0}}), workers), testing::HasSubstr("worker 0 has ended"));
  workers[1].waits = true;
  EXPECT_THAT(refusal(replay_of({{Kind::Pause, 1}}), workers), testing::HasSubstr("comes later"));
  ServerReplay admits = replay_of({{Kind::Admit, 1}});
  EXPECT_THROW(admits.done(Kind::Drop), Error) << "the contribution counts otherwise";
}

}  // namespace
}  // namespace taxon::exchange
