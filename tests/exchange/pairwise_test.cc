#include "exchange/topologies/pairwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "support/ranks.h"
#include "support/virtual_ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr Range kUnits[] = {{16, 700}, {720, 33}};

/// Members that take steps of their own and average in between, each as often as it likes.
struct PairMixing {
  int ranks = 1;
  std::vector<int> turns;      // [rank]
  double step = 0;             // what each turn of a rank adds to its values: step * (rank + 1)
  int pause_after = 0;         // all come together once after so many turns; 0: only at the end
  std::vector<double> values;  // [rank], afterwards; of the first element of each unit, added up
  std::vector<double> together;
};

double first_of_units(const tensor::Arena& arena) {
  double sum = 0;
  for (Range unit : kUnits) sum += arena.values<double>(unit)[0];
  return sum;
}

task::Task<void> turn(Pairwise* pairs, const tensor::Arena* arena, std::int64_t round) {
  for (std::uint32_t unit = 0; unit < 2; ++unit) {
    const LevelTransfer transfer{unit, 0, kUnits[unit], {}, round};
    auto reducing = pairs->reduce(transfer, *arena);
    co_await reducing;
    auto spreading = pairs->spread(transfer, *arena);
    co_await spreading;
  }
}

task::Task<void> come_together(Pairwise* pairs, const tensor::Arena* arena) {
  auto pausing = pairs->pause();
  co_await pausing;
  if (!pairs->is_passive()) co_return;
  auto taking_over = turn(pairs, arena, 0);
  co_await taking_over;
}

task::Task<void> mix(PairMixing* mixing, comm::Runtime* runtime) {
  std::vector<Rank> everybody;
  for (int r = 0; r < mixing->ranks; ++r) everybody.emplace_back(r);
  comm::Communicator all(*runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  const plan::LevelPlan level;
  Pairwise pairs(all, {.level = level, .seed = 5});
  tensor::Arena arena(runtime->transport, DType::Float64, 800);
  const auto rank = static_cast<std::size_t>(runtime->rank().value());
  for (Range unit : kUnits)
    for (double& value : arena.values<double>(unit)) value = static_cast<double>(rank * rank);
  task::Scope listeners(runtime->pending());
  auto attending = pairs.serve({kUnits[0], kUnits[1]}, &arena, &listeners);
  co_await attending;
  for (int t = 0; t < mixing->turns[rank]; ++t) {
    for (Range unit : kUnits)
      for (double& value : arena.values<double>(unit)) value += mixing->step * static_cast<double>(rank + 1);
    auto taking = turn(&pairs, &arena, t);
    co_await taking;
    if (t + 1 != mixing->pause_after) continue;
    auto meeting = come_together(&pairs, &arena);
    co_await meeting;
    mixing->together[rank] = first_of_units(arena);
    auto all_together = comm::find_row(net::Operation::Barrier, "dissemination").run(all, comm::Call{});
    co_await all_together;
  }
  auto meeting = come_together(&pairs, &arena);
  co_await meeting;
  for (Range unit : kUnits)
    for (double value : arena.values<double>(unit)) EXPECT_EQ(value, arena.values<double>(unit)[0]);
  mixing->values[rank] = first_of_units(arena);
  auto closing = pairs.close({}, nullptr);
  co_await closing;
  co_await listeners.join();
}

task::Task<void> mix_over(PairMixing* mixing, net::Transport* transport) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  auto mixing_task = mix(mixing, &runtime);
  co_await mixing_task;
}

void prepare(PairMixing* mixing) {
  mixing->values.assign(static_cast<std::size_t>(mixing->ranks), 0);
  mixing->together.assign(static_cast<std::size_t>(mixing->ranks), 0);
}

void run(PairMixing* mixing) {
  prepare(mixing);
  test::RankBody body = [&](net::Transport& transport) { return mix_over(mixing, &transport); };
  test::run_ranks(mixing->ranks, body, {});
}

/// Of both units.
double sum_at_first(int ranks) {
  double sum = 0;
  for (int r = 0; r < ranks; ++r) sum += 2.0 * r * r;
  return sum;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Pairs, AveragesConserveTheSumHoweverOftenEachMemberTakesATurn) {
  for (int ranks : {1, 2, 3, 5, 6}) {
    PairMixing mixing{.ranks = ranks};
    for (int r = 0; r < ranks; ++r) mixing.turns.push_back((r * 7) % 11 + (r % 2 == 0 ? 0 : 20));
    run(&mixing);
    EXPECT_NEAR(sum_of(mixing.values), sum_at_first(ranks), 1e-9) << ranks;
    if (ranks < 2) continue;
    EXPECT_LT(*std::max_element(mixing.values.begin(), mixing.values.end()), 2.0 * (ranks - 1) * (ranks - 1));
  }
}

/// The mean of the replicas moves as the mean of their own steps, whoever averages with whom meanwhile.
TEST(Pairs, TheMeanMovesAsTheMeanOfTheSteps) {
  for (int ranks : {2, 4, 5}) {
    PairMixing mixing{.ranks = ranks, .step = 0.25, .pause_after = 3};
    double all_steps = 0, early_steps = 0;
    for (int r = 0; r < ranks; ++r) {
      mixing.turns.push_back(3 + 5 * r);
      all_steps += 2 * mixing.turns.back() * 0.25 * (r + 1);
      early_steps += 2 * 3 * 0.25 * (r + 1);
    }
    run(&mixing);
    EXPECT_NEAR(sum_of(mixing.together), sum_at_first(ranks) + early_steps, 1e-9) << ranks;
    EXPECT_NEAR(sum_of(mixing.values), sum_at_first(ranks) + all_steps, 1e-9) << ranks;
  }
}

/// The same over modelled links whose delays make every order of arrivals: nobody waits in a circle.
TEST(Pairs, ConserveTheSumInEveryOrderOfArrivals) {
  std::set<double> seen;
  const plan::ClusterModel cluster = test::delayed(test::separate_hosts(5));
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    PairMixing mixing{.ranks = 5, .turns = {4, 9, 1, 12, 7}, .step = 0.5};
    prepare(&mixing);
    sim::World world(cluster, 5, {.seed = seed});
    sim::RankBody body = [&](comm::Runtime& runtime) { return mix(&mixing, &runtime); };
    const sim::Report report = world.run(body);
    ASSERT_FALSE(report.failure) << seed;
    double steps = 0;
    for (std::size_t r = 0; r < 5; ++r) steps += 2 * mixing.turns[r] * 0.5 * static_cast<double>(r + 1);
    EXPECT_NEAR(sum_of(mixing.values), sum_at_first(5) + steps, 1e-9) << seed;
    seen.insert(mixing.values[0]);
  }
  EXPECT_GT(seen.size(), 5u);  // orders do differ
}

}  // namespace
}  // namespace taxon::exchange
