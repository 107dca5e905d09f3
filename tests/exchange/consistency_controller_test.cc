#include "exchange/server/consistency_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/rng.h"
#include "exchange/consistency/clocks.h"

namespace taxon::exchange {
namespace {

using Arrival = ConsistencyController::Arrival;
constexpr auto kUnbounded = Consistency::kUnbounded;

std::vector<int> workers_of(const std::vector<ConsistencyController::Pooled>& update) {
  std::vector<int> workers;
  for (const ConsistencyController::Pooled& pooled : update) workers.push_back(pooled.worker);
  return workers;
}

TEST(ConsistencyController, SynchronousWaitsForAllAndSumsInRankOrder) {
  ConsistencyController kernels(3, make_clocks({}));
  for (int w : {2, 0}) {
    EXPECT_EQ(kernels.arrive(w, 0, 0), Arrival::Pooled);
    EXPECT_FALSE(kernels.full());
    EXPECT_FALSE(kernels.may_go(w));
  }
  kernels.arrive(1, 0, 0);
  ASSERT_TRUE(kernels.full());
  EXPECT_EQ(workers_of(kernels.take()), (std::vector{0, 1, 2}));
  EXPECT_EQ(kernels.version(), 1);
  for (int w : {0, 1, 2}) EXPECT_TRUE(kernels.may_go(w));
}

TEST(ConsistencyController, BoundedStalenessLetsOneRunSoFarAhead) {
  ConsistencyController kernels(2, make_clocks({.staleness = 2, .apply = 1}));
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    EXPECT_EQ(kernels.arrive(0, clock, clock), Arrival::Pooled);
    kernels.take();
    EXPECT_EQ(kernels.may_go(0), clock < 2) << clock;
  }
  EXPECT_EQ(kernels.arrive(1, 0, 0), Arrival::Pooled);
  const auto late = kernels.take();
  EXPECT_EQ(late[0].staleness, 3);  // worker 0 updated three times since
  EXPECT_TRUE(kernels.may_go(0));
  EXPECT_TRUE(kernels.may_go(1));
}

TEST(ConsistencyController, AsynchronousNeverWaits) {
  ConsistencyController kernels(2, make_clocks({.staleness = kUnbounded, .apply = 1}));
  for (std::int64_t clock = 0; clock < 50; ++clock) {
    kernels.arrive(0, clock, clock);
    EXPECT_TRUE(kernels.full());
    EXPECT_TRUE(kernels.may_go(0));
    kernels.take();
  }
}

TEST(ConsistencyController, BackupWorkersDropWhatComesLateAndTheirClockJumps) {
  ConsistencyController kernels(3, make_clocks({.quorum = 2, .apply = 2}));
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    kernels.arrive(0, clock, clock);
    EXPECT_FALSE(kernels.full());
    kernels.arrive(1, clock, clock);
    EXPECT_EQ(workers_of(kernels.take()), (std::vector{0, 1}));
  }
  EXPECT_EQ(kernels.arrive(2, 0, 0), Arrival::Dropped);
  EXPECT_FALSE(kernels.full());
  EXPECT_EQ(kernels.clock(2), 4);
  EXPECT_TRUE(kernels.may_go(2));
  EXPECT_EQ(kernels.version(), 4);
}

/// An owner that is at work sees several arrive before it looks again. Worker 2 was told that it is at 1; if
/// what it handed in went into a later update, this owner would have it at 2 and others would not, and
/// workers could wait for each other at different owners.
TEST(ConsistencyController, AQuorumsUpdateLeavesNobodyBehindInThePool) {
  ConsistencyController kernels(4, make_clocks({.quorum = 2, .apply = 2}));
  for (int w : {0, 1, 2}) EXPECT_EQ(kernels.arrive(w, 0, 0), Arrival::Pooled);
  EXPECT_EQ(workers_of(kernels.take()), (std::vector{0, 1}));
  EXPECT_EQ(workers_of(kernels.drop_late()), std::vector{2});
  EXPECT_EQ(kernels.clock(2), 1);
  EXPECT_TRUE(kernels.may_go(2));
  kernels.arrive(3, 1, 1);
  EXPECT_FALSE(kernels.full());
  EXPECT_TRUE(kernels.drop_late().empty());
}

TEST(ConsistencyController, WithoutAQuorumNothingInThePoolIsEverTooLate) {
  ConsistencyController kernels(3, make_clocks({.staleness = 1, .apply = 1}));
  for (int w : {0, 1, 2}) kernels.arrive(w, 0, 0);
  for (int w : {0, 1, 2}) {
    EXPECT_EQ(workers_of(kernels.take()), std::vector{w});
    EXPECT_TRUE(kernels.drop_late().empty());
  }
}

TEST(ConsistencyController, SoftsyncUpdatesOfSoManyAndWaitsForNobody) {
  ConsistencyController kernels(4, make_clocks({.staleness = kUnbounded, .apply = 2}));
  kernels.arrive(3, 0, 0);
  EXPECT_FALSE(kernels.full());
  EXPECT_TRUE(kernels.may_go(3));
  kernels.arrive(3, 0, 0);
  ASSERT_TRUE(kernels.full());
  EXPECT_EQ(workers_of(kernels.take()), (std::vector{3, 3}));
  EXPECT_EQ(kernels.clock(3), 2);
}

TEST(ConsistencyController, WhoPausesHoldsNobodyUp) {
  ConsistencyController kernels(3, make_clocks({}));
  kernels.arrive(0, 0, 0);
  kernels.arrive(1, 0, 0);
  EXPECT_FALSE(kernels.full());
  kernels.pause(2);
  EXPECT_TRUE(kernels.full());
  kernels.take();
  for (int w : {0, 1}) {
    EXPECT_TRUE(kernels.may_go(w));
  }
  EXPECT_EQ(kernels.arrive(2, 1, 1), Arrival::Pooled);  // it is back
  kernels.arrive(0, 1, 1);
  EXPECT_FALSE(kernels.full());
}

TEST(ConsistencyController, WhoComesBackFirstGetsNoFurtherAhead) {
  ConsistencyController kernels(3, make_clocks({.staleness = 1, .apply = 1}));
  for (int w : {0, 1}) kernels.pause(w);
  EXPECT_TRUE(kernels.may_go(2));
  kernels.leave(2);  // the last that had not paused
  kernels.arrive(0, 0, 0);
  kernels.take();
  EXPECT_TRUE(kernels.may_go(0));
  kernels.arrive(0, 1, 1);
  kernels.take();
  EXPECT_FALSE(kernels.may_go(0)) << kernels.describe();
  kernels.arrive(1, 0, 0);
  kernels.take();
  EXPECT_TRUE(kernels.may_go(0));
}

TEST(ConsistencyController, APoolIsAsLargeAfterAPauseAsBefore) {
  ConsistencyController kernels(2, make_clocks({.staleness = kUnbounded, .apply = 2}));
  for (int w : {0, 1}) kernels.pause(w);
  kernels.arrive(0, 0, 0);
  EXPECT_FALSE(kernels.full());
}

/// Contributions of different clocks in one update leave nobody waiting for the slower of them, also when the
/// workers that were fastest have paused.
TEST(ConsistencyController, AQuorumOfDifferentClocksGoesOnTogether) {
  ConsistencyController kernels(4, make_clocks({.quorum = 2, .apply = 2}));
  kernels.arrive(1, 0, 0);
  kernels.arrive(2, 0, 0);
  kernels.take();
  kernels.pause(1);
  kernels.pause(2);
  EXPECT_EQ(kernels.common(), 1);
  EXPECT_EQ(kernels.arrive(0, 0, 0), Arrival::Dropped);
  EXPECT_EQ(kernels.arrive(3, 4, 1), Arrival::Pooled);  // it jumped at another unit
  EXPECT_FALSE(kernels.full());
  EXPECT_EQ(kernels.arrive(0, 1, 1), Arrival::Pooled);
  EXPECT_EQ(workers_of(kernels.take()), (std::vector{0, 3}));
  for (int w : {0, 3}) {
    EXPECT_EQ(kernels.clock(w), 5);
    EXPECT_TRUE(kernels.may_go(w));
  }
  EXPECT_EQ(kernels.arrive(1, 2, 1), Arrival::Dropped);
}

std::unique_ptr<ConsistencyRule> sampled(std::int64_t staleness, int sample) {
  plan::LevelPlan level;
  level.options = {{"staleness", staleness}, {"sample", sample}};
  return find_consistency("sampled").make(level, {.workers = 5, .seed = 1, .unit = 2});
}

/// Of four others it draws as many as it says, others in another step, and waits for those alone.
TEST(ConsistencyController, SampledWaitsForThoseThatItDraws) {
  const auto rule = sampled(1, 2);
  std::vector<WorkerClock> workers(5);
  std::set<std::set<int>> samples;
  for (std::int64_t step = 1; step <= 20; ++step) {
    workers[3].handed_in = step;
    std::set<int> sample;
    for (int other : {0, 1, 2, 4})
      if (rule->waits_for(3, other, workers)) sample.insert(other);
    EXPECT_EQ(sample.size(), 2u);
    samples.insert(sample);
  }
  EXPECT_GT(samples.size(), 2u);
  ConsistencyController everybody(2, sampled(1, 1));  // one other: bounded staleness
  for (std::int64_t step = 0; step < 2; ++step) {
    everybody.is_new(0, step);
    everybody.arrive(0, step, step);
    everybody.take();
    EXPECT_EQ(everybody.may_go(0), step < 1);
  }
}

/// Several units decide by themselves, each in its own order of arrivals: however workers are dropped,
/// somebody can go on at every unit where he waits.
TEST(ConsistencyController, UnitsThatDecideApartNeverCloseACircle) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    constexpr int kWorkers = 4, kUnits = 4;
    std::vector<ConsistencyController> desks;
    for (int u = 0; u < kUnits; ++u) desks.emplace_back(kWorkers, make_clocks({.quorum = 3, .apply = 3}));
    Rng rng(seed, "arrivals");
    std::vector<std::int64_t> clock(kWorkers, 0), next(kWorkers, 0);
    // Of each worker and unit: 0 on its way there, 1 waits there, 2 answered.
    std::vector<std::vector<int>> state(kWorkers, std::vector<int>(kUnits, 0));
    std::vector<int> steps(kWorkers, 0);
    std::vector<char> pauses(kWorkers, 0);
    for (int event = 0; event < 2000; ++event) {
      std::vector<std::pair<int, int>> underway;
      for (int w = 0; w < kWorkers; ++w)
        for (int u = 0; u < kUnits; ++u)
          if (!pauses[static_cast<std::size_t>(w)] &&
              state[static_cast<std::size_t>(w)][static_cast<std::size_t>(u)] == 0)
            underway.emplace_back(w, u);
      if (underway.empty()) {  // all pause, or nobody can go on
        ASSERT_EQ(std::count(pauses.begin(), pauses.end(), 1), kWorkers) << "a circle, seed " << seed;
        pauses.assign(kWorkers, 0);
        continue;
      }
      const auto [w, u] = underway[rng.below(underway.size())];
      ConsistencyController& kernels = desks[static_cast<std::size_t>(u)];
      kernels.arrive(w, clock[static_cast<std::size_t>(w)], kernels.version());
      state[static_cast<std::size_t>(w)][static_cast<std::size_t>(u)] = 1;
      for (bool again = true; std::exchange(again, false);)
        for (int d = 0; d < kUnits; ++d) {
          ConsistencyController& other = desks[static_cast<std::size_t>(d)];
          while (other.full()) other.take();
          for (int v = 0; v < kWorkers; ++v) {
            const auto at = static_cast<std::size_t>(v);
            int& there = state[at][static_cast<std::size_t>(d)];
            if (there != 1 || !other.may_go(v)) continue;
            there = 2;
            next[at] = std::max({next[at], other.clock(v), other.common()});
            if (std::count(state[at].begin(), state[at].end(), 2) < kUnits) continue;
            clock[at] = std::max(clock[at] + 1, next[at]);
            state[at].assign(kUnits, 0);
            again = true;
            if (++steps[at] % 9 != 0) continue;
            pauses[at] = 1;  // a test
            for (ConsistencyController& each : desks) each.pause(v);
          }
        }
    }
  }
}

/// Whatever the order of arrivals: nobody is further ahead than the bound, nothing counts twice or is lost
/// that was not dropped, and somebody can always go on.
TEST(ConsistencyController, HoldsItsPromisesForRandomArrivals) {
  struct Kind {
    Consistency numbers;
    std::function<std::unique_ptr<ConsistencyRule>(Consistency)> make = make_clocks;
  };
  const std::vector<Kind> kinds = {{{}},
                                   {{.staleness = 1, .apply = 1}},
                                   {{.staleness = 3, .apply = 1}},
                                   {{.staleness = kUnbounded, .apply = 1}},
                                   {{.staleness = kUnbounded, .apply = 3}},
                                   {{.quorum = 3, .apply = 3}},
                                   {{.staleness = kUnbounded}, [](Consistency) { return sampled(1, 2); }}};
  for (const auto& [numbers, make] : kinds)
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      constexpr int kWorkers = 5;
      ConsistencyController kernels(kWorkers, make(numbers));
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
        dropped += kernels.arrive(w, clock[at], base[at]) == Arrival::Dropped;
        computing[at] = 0;
        while (kernels.full())
          for (const ConsistencyController::Pooled& pooled : kernels.take()) {
            ++applied;
            EXPECT_GE(pooled.staleness, 0);
          }
        for (int other = 0; other < kWorkers; ++other) {
          const auto slot = static_cast<std::size_t>(other);
          if (computing[slot] || !kernels.may_go(other)) continue;
          computing[slot] = 1;
          clock[slot] = std::max(clock[slot] + 1, std::max(kernels.clock(other), kernels.common()));
          base[slot] = kernels.version();
          if (numbers.staleness != kUnbounded) {
            EXPECT_LE(kernels.clock(other), kernels.common() + numbers.staleness);
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
