// Servers and their workers without a trainer: in an order of arrivals that the test makes, or that one seed
// of the virtual world makes.
#include <gtest/gtest.h>

#include "exchange/server_member.h"
#include "support/ranks.h"
#include "support/virtual_ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

/// Worker 0's turn, then worker 1's with the same weights, then worker 0's again. What they get.
struct InTurn {
  plan::LevelPlan level;
  std::vector<double> answers;
};

task::Task<void> take_turns(InTurn* run, net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  Member member(runtime, 3, 1, run->level);
  auto beginning = member.begin(1);
  co_await beginning;
  struct Turn {
    int worker;
    double gradient;
  };
  constexpr Turn kTurns[] = {{0, 2}, {1, 3}, {0, 1}};
  for (std::size_t t = 0; t < 3; ++t) {
    if (member.rank() != kTurns[t].worker) continue;
    if (t > 0) {
      auto waiting = member.take_token(kTurns[t - 1].worker);
      co_await waiting;
    }
    for (double& value : member.all(member.gradients)) value = kTurns[t].gradient;
    auto turn = member.turn();
    co_await turn;
    run->answers.push_back(member.all(member.weights)[0]);
    for (double value : member.all(member.weights))
      EXPECT_EQ(value == 0 || value == run->answers.back(), true);
    if (t == 2) continue;
    auto going_on = member.give_token(kTurns[t + 1].worker);
    co_await going_on;
  }
  auto ending = member.end();
  co_await ending;
}

std::vector<double> answers_of(plan::LevelPlan level) {
  InTurn run{std::move(level), {}};
  test::RankBody body = [&](net::Transport& transport) { return take_turns(&run, &transport); };
  test::run_ranks(3, body, {});
  return run.answers;
}

void expect_near(const std::vector<double>& answers, const std::vector<double>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_NEAR(answers[i], expected[i], 1e-12) << i;
}

// w = 1, rate 0.1, gradients 2, 3, 1.
TEST(ParameterServer, AsynchronousUpdatesWithEachGradientAsItComes) {
  expect_near(answers_of(level_of(-1, 1)), {0.8, 0.5, 0.4});
}

// Each comes one update late but the first: 3 and 1 are halved.
TEST(ParameterServer, LateGradientsCountLess) {
  expect_near(answers_of(level_of(-1, 1, "less")), {0.8, 0.8 - 0.15, 0.65 - 0.05});
}

// lambda = 0.5. Worker 1 was served 1: 3 + 0.5 * 9 * (0.8 - 1) = 2.1, w = 0.59. Worker 0 was served 0.8 by
// then: 1 + 0.5 * (0.59 - 0.8) = 0.895, w = 0.5005.
TEST(ParameterServer, DelayCompensationTakesWhatEachWorkerWasServedLast) {
  expect_near(answers_of(level_of(-1, 1, "compensated", 0.5)), {0.8, 0.59, 0.5005});
}

/// Workers whose gradients depend on what they were served, in the order that a seed makes.
struct Racing {
  plan::LevelPlan level;
  int dedicated = 0;
  std::vector<double> weights;  // worker 0's at last
  std::size_t most_late = 0;
};

constexpr int kRanks = 4;

task::Task<void> race(Racing* racing, comm::Runtime* runtime) {
  Member member(*runtime, kRanks, racing->dedicated, racing->level);
  auto beginning = member.begin(1);
  co_await beginning;
  for (int t = 0; t < 20 && member.works(); ++t) {
    auto w = member.all(member.weights);
    auto g = member.all(member.gradients);
    for (std::size_t i = 0; i < g.size(); ++i)
      g[i] = w[i] - 0.1 * (member.rank() + 1) - 0.01 * static_cast<double>(i);
    // Some are slower, but not by much.
    task::SleepUntil computing(
        runtime->executor(), runtime->pending(),
        runtime->executor().now() + Duration(std::chrono::microseconds(50 * member.rank())));
    co_await computing;
    auto turn = member.turn();
    co_await turn;
  }
  if (member.rank() == 0)
    racing->weights.assign(member.all(member.weights).begin(), member.all(member.weights).end());
  auto ending = member.end();
  co_await ending;
  if (member.service()) racing->most_late = std::max(racing->most_late, member.service()->staleness().size());
}

Racing raced(plan::LevelPlan level, int dedicated, std::uint64_t seed) {
  Racing racing{std::move(level), dedicated, {}, 0};
  const plan::ClusterModel cluster = test::delayed(test::separate_hosts(kRanks));
  sim::World world(cluster, kRanks, {.seed = seed});
  sim::RankBody body = [&](comm::Runtime& runtime) { return race(&racing, &runtime); };
  const sim::Report report = world.run(body);
  if (report.failure) std::rethrow_exception(report.failure);
  return racing;
}

/// Conformance of bounded staleness: a bound that nobody reaches changes no bit, one that is reached does.
TEST(ParameterServer, ABoundThatNobodyReachesIsAsynchronous) {
  for (int dedicated : {0, 1})
    for (std::uint64_t seed : {1, 2, 3}) {
      const Racing free = raced(level_of(-1, 1), dedicated, seed);
      EXPECT_GT(free.most_late, 2u);
      EXPECT_EQ(raced(level_of(1000, 1), dedicated, seed).weights, free.weights) << dedicated << " " << seed;
      EXPECT_NE(raced(level_of(1, 1), dedicated, seed).weights, free.weights) << dedicated << " " << seed;
    }
}

TEST(ParameterServer, OneOrderOfArrivalsIsOneResult) {
  for (const char* late : {"as_others", "less", "compensated", "compensated_adaptively"}) {
    const auto level = level_of(-1, 1, late, 2);
    EXPECT_EQ(raced(level, 1, 1).weights, raced(level, 1, 1).weights) << late;
    EXPECT_NE(raced(level, 1, 1).weights, raced(level, 1, 2).weights) << late;
  }
}

}  // namespace
}  // namespace taxon::exchange
