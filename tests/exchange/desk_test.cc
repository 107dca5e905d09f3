#include "exchange/desk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/rng.h"

namespace taxon::exchange {
namespace {

using Arrival = Desk::Arrival;
constexpr auto kUnbounded = Consistency::kUnbounded;

std::vector<int> workers_of(const std::vector<Desk::Pooled>& update) {
  std::vector<int> workers;
  for (const Desk::Pooled& pooled : update) workers.push_back(pooled.worker);
  return workers;
}

TEST(Desk, SynchronousWaitsForAllAndSumsInRankOrder) {
  Desk desk(3, {});
  for (int w : {2, 0}) {
    EXPECT_EQ(desk.arrive(w, 0, 0), Arrival::Pooled);
    EXPECT_FALSE(desk.full());
    EXPECT_FALSE(desk.may_go(w));
  }
  desk.arrive(1, 0, 0);
  ASSERT_TRUE(desk.full());
  EXPECT_EQ(workers_of(desk.take()), (std::vector{0, 1, 2}));
  EXPECT_EQ(desk.version(), 1);
  for (int w : {0, 1, 2}) EXPECT_TRUE(desk.may_go(w));
}

TEST(Desk, BoundedStalenessLetsOneRunSoFarAhead) {
  Desk desk(2, {.staleness = 2, .apply = 1});
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    EXPECT_EQ(desk.arrive(0, clock, clock), Arrival::Pooled);
    desk.take();
    EXPECT_EQ(desk.may_go(0), clock < 2) << clock;
  }
  EXPECT_EQ(desk.arrive(1, 0, 0), Arrival::Pooled);
  const auto late = desk.take();
  EXPECT_EQ(late[0].staleness, 3);  // worker 0 updated three times since
  EXPECT_TRUE(desk.may_go(0));
  EXPECT_TRUE(desk.may_go(1));
}

TEST(Desk, AsynchronousNeverWaits) {
  Desk desk(2, {.staleness = kUnbounded, .apply = 1});
  for (std::int64_t clock = 0; clock < 50; ++clock) {
    desk.arrive(0, clock, clock);
    EXPECT_TRUE(desk.full());
    EXPECT_TRUE(desk.may_go(0));
    desk.take();
    desk.go(0);
  }
}

TEST(Desk, BackupWorkersDropWhatComesLateAndTheirClockJumps) {
  Desk desk(3, {.quorum = 2, .apply = 2});
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    desk.arrive(0, clock, clock);
    EXPECT_FALSE(desk.full());
    desk.arrive(1, clock, clock);
    EXPECT_EQ(workers_of(desk.take()), (std::vector{0, 1}));
  }
  EXPECT_EQ(desk.arrive(2, 0, 0), Arrival::Dropped);
  EXPECT_FALSE(desk.full());
  EXPECT_EQ(desk.clock(2), 4);
  EXPECT_TRUE(desk.may_go(2));
  EXPECT_EQ(desk.version(), 4);
}

TEST(Desk, SoftsyncUpdatesOfSoManyAndWaitsForNobody) {
  Desk desk(4, {.staleness = kUnbounded, .apply = 2});
  desk.arrive(3, 0, 0);
  EXPECT_FALSE(desk.full());
  EXPECT_TRUE(desk.may_go(3));
  desk.go(3);
  desk.arrive(3, 0, 0);
  ASSERT_TRUE(desk.full());
  EXPECT_EQ(workers_of(desk.take()), (std::vector{3, 3}));
  EXPECT_EQ(desk.clock(3), 2);
}

TEST(Desk, WhoPausesHoldsNobodyUp) {
  Desk desk(3, {});
  desk.arrive(0, 0, 0);
  desk.arrive(1, 0, 0);
  EXPECT_FALSE(desk.full());
  desk.pause(2);
  EXPECT_TRUE(desk.full());
  desk.take();
  for (int w : {0, 1}) {
    EXPECT_TRUE(desk.may_go(w));
    desk.go(w);
  }
  EXPECT_EQ(desk.arrive(2, 1, 1), Arrival::Pooled);  // it is back
  desk.arrive(0, 1, 1);
  EXPECT_FALSE(desk.full());
}

/// The second fastest has paused, so that the common clock is behind one that waits: nobody could ever add to
/// the pool.
TEST(Desk, ThePoolOfTheLastOnesIsFullWhenNobodyElseCanCome) {
  Desk desk(4, {.quorum = 2, .apply = 2});
  desk.arrive(1, 0, 0);
  desk.arrive(2, 0, 0);
  desk.take();
  desk.pause(1);
  desk.pause(2);
  EXPECT_EQ(desk.arrive(3, 1, 1), Arrival::Pooled);
  EXPECT_FALSE(desk.full());  // worker 0 computes
  EXPECT_EQ(desk.arrive(0, 0, 0), Arrival::Pooled);
  EXPECT_EQ(workers_of(desk.take()), (std::vector{0, 3}));
  EXPECT_TRUE(desk.may_go(0));
  desk.go(0);
  EXPECT_FALSE(desk.may_go(3));  // at 2, and the common clock is 1
  EXPECT_EQ(desk.arrive(0, 1, 2), Arrival::Pooled);
  ASSERT_TRUE(desk.full());
  EXPECT_EQ(workers_of(desk.take()), (std::vector{0}));
  EXPECT_TRUE(desk.may_go(3));
}

/// Whatever the order of arrivals: nobody is further ahead than the bound, nothing counts twice or is lost
/// that was not dropped, and somebody can always go on.
TEST(Desk, HoldsItsPromisesForRandomArrivals) {
  const std::vector<Consistency> kinds = {{},
                                          {.staleness = 1, .apply = 1},
                                          {.staleness = 3, .apply = 1},
                                          {.staleness = kUnbounded, .apply = 1},
                                          {.staleness = kUnbounded, .apply = 3},
                                          {.quorum = 3, .apply = 3}};
  for (const Consistency& numbers : kinds)
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      constexpr int kWorkers = 5;
      Desk desk(kWorkers, numbers);
      Rng rng(seed, "arrivals");
      std::vector<std::int64_t> clock(kWorkers, 0), base(kWorkers, 0);
      std::vector<char> computing(kWorkers, 1);
      std::int64_t handed_in = 0, dropped = 0, applied = 0;
      for (int event = 0; event < 400; ++event) {
        std::vector<int> ready;
        for (int w = 0; w < kWorkers; ++w)
          if (computing[static_cast<std::size_t>(w)]) ready.push_back(w);
        ASSERT_FALSE(ready.empty()) << "everybody waits";
        // Workers of small number are faster.
        const int w = ready[std::min(rng.below(ready.size()), rng.below(ready.size()))];
        const auto at = static_cast<std::size_t>(w);
        ++handed_in;
        dropped += desk.arrive(w, clock[at], base[at]) == Arrival::Dropped;
        computing[at] = 0;
        while (desk.full())
          for (const Desk::Pooled& pooled : desk.take()) {
            ++applied;
            EXPECT_GE(pooled.staleness, 0);
          }
        for (int other = 0; other < kWorkers; ++other) {
          const auto seat = static_cast<std::size_t>(other);
          if (computing[seat] || !desk.may_go(other)) continue;
          computing[seat] = 1;
          desk.go(other);
          clock[seat] = std::max(clock[seat] + 1, std::max(desk.clock(other), desk.common()));
          base[seat] = desk.version();
          if (numbers.staleness != kUnbounded) {
            EXPECT_LE(desk.clock(other), desk.common() + numbers.staleness);
          }
        }
        const auto waiting = handed_in - dropped - applied;
        EXPECT_GE(waiting, 0);
        EXPECT_LT(waiting, kWorkers);
      }
      if (numbers.quorum == 0) {
        EXPECT_EQ(dropped, 0);
      }
      EXPECT_GT(applied, 0);
    }
}

}  // namespace
}  // namespace taxon::exchange
