// Sketched-SGD: servers ask for exact values of what the sum of sketches points at.
#include "exchange/compression/selected_entries.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "exchange/levels/levels.h"
#include "exchange/server/parameter_server.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

constexpr int kEntrySteps = 6;
constexpr std::size_t kEntries = 3000;

plan::LevelPlan sketched(std::string_view topology) {
  plan::LevelPlan level;
  level.topology = topology;
  level.codec = {.name = "count_sketch", .options = {{"density", 0.05}, {"columns", 0.2}}};
  level.codec.momentum = 0.5;
  return level;
}

/// Who takes part, and what some of them hand in.
struct EntriesCase {
  int workers, dedicated;
  plan::LevelPlan level = sketched("servers");
  int not_finite_at = -1;  // step in which worker 0's gradient is not
  int ranks() const { return workers + dedicated; }
};

/// Whole numbers, so that sums are exact in any order.
std::vector<float> contribution(int rank, int step) {
  Rng rng(static_cast<std::uint64_t>(step), "contribution", static_cast<std::uint64_t>(rank));
  std::vector<float> values(kEntries);
  for (float& value : values)
    value = std::floor(static_cast<float>((2 * rng.uniform() - 1) * std::exp(5 * rng.uniform()))) * 16;
  return values;
}

struct SeenEntries {
  std::vector<std::vector<float>> weights;  // [rank], of workers, at last
  std::vector<double> state;                // over all workers
  double bytes = 0;                         // that a member sent in a step, the mean
};

Layout layout_of() {
  const std::vector<Tensor> tensors = {{"a", {static_cast<std::int64_t>(kEntries)}}};
  plan::ExchangePlan plan;
  plan.bucket_bytes = plan.slice_bytes = 1 << 20;
  return lay_out(tensors, cut_buckets(tensors, DType::Float32, plan), DType::Float32);
}

std::vector<Rank> everybody(int ranks) {
  std::vector<Rank> everybody;
  for (int r = 0; r < ranks; ++r) everybody.emplace_back(r);
  return everybody;
}

/// A server whose rule is to subtract the sum.
ParameterServer::Setup setup_of(const EntriesCase& c, const Layout& layout, comm::Communicator& group,
                                const tensor::Arena& weights) {
  ParameterServer::Setup setup;
  setup.layout = &layout;
  setup.group = &group;
  setup.roles = {c.ranks(), c.dedicated};
  setup.level = &c.level;
  setup.consistency = &find_consistency(c.level.consistency);
  setup.weights = &weights;
  setup.coders =
      std::make_unique<ServerCoders>(TopologyContext{.level = c.level, .seed = 5, .servers = c.dedicated});
  plan::OptimiserPlan sgd;
  sgd.rule = "sgd";
  setup.owner =
      make_weight_server(optim::rule_table()[0].make(sgd, {DType::Float32, weights.size(), {}, {}}),
                         tensor::Arena(DType::Float32, weights.size()), [](std::int64_t) { return 1.0; });
  return setup;
}

void hand_in(const EntriesCase& c, int rank, int step, std::span<float> gradients) {
  const std::vector<float> mine = contribution(rank, step);
  std::copy(mine.begin(), mine.end(), gradients.begin());
  if (rank == 0 && step == c.not_finite_at) gradients[7] = std::numeric_limits<float>::infinity();
}

void keep(const std::vector<Topology::StateArena>& all, Range range, SeenEntries* seen) {
  for (const Topology::StateArena& state : all) {
    if (!state.name.ends_with("errors")) continue;
    for (std::size_t i = 0; i < range.size; ++i) seen->state[i] += state.values->values<float>(range)[i];
  }
}

task::Task<void> train(const EntriesCase* c, net::Transport* transport, SeenEntries* seen) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  comm::Communicator group(runtime, "data", everybody(c->ranks()));
  auto establish = group.establish();
  co_await establish;
  const Layout layout = layout_of();
  tensor::Arena weights(*transport, DType::Float32, layout.arena.size());
  tensor::Arena gradients(*transport, DType::Float32, layout.arena.size());
  const Roles roles{c->ranks(), c->dedicated};
  auto servers =
      find_topology("servers").make(group, {.level = c->level, .seed = 5, .servers = c->dedicated});
  servers->stateful()->prepare(gradients, layout.arena.slots());
  std::unique_ptr<ParameterServer> service;
  if (roles.serves(group.rank())) {
    service = std::make_unique<ParameterServer>(runtime, setup_of(*c, layout, group, weights));
    auto opening = service->open();
    co_await opening;
    service->serve(std::int64_t{0}, std::int64_t{0});
  }
  const Range range = layout.buckets[0].range;
  const std::uint64_t before = transport->traffic().bytes_sent;
  for (int step = 0; step < kEntrySteps && roles.works(group.rank()); ++step) {
    servers->asynchronous()->begin_turn();
    servers->asynchronous()->weigh(1, roles.workers());
    hand_in(*c, group.rank(), step, gradients.values<float>(range));
    const LevelTransfer transfer{0, 0, range, {}, step};
    auto reducing = servers->reduce(transfer, gradients);
    co_await reducing;
    auto spreading = servers->spread(transfer, weights);
    co_await spreading;
  }
  auto barrier = comm::find_row(net::Operation::Barrier, "dissemination").run(group, comm::Call{});
  co_await barrier;
  seen->bytes += static_cast<double>(transport->traffic().bytes_sent - before) / kEntrySteps / c->ranks();
  if (roles.works(group.rank())) {
    auto& mine = seen->weights[static_cast<std::size_t>(group.rank())];
    auto values = weights.values<float>(range);
    mine.assign(values.begin(), values.end());
    keep(servers->stateful()->state(), range, seen);
  }
  std::vector<Range> units{range};
  auto closing = servers->asynchronous()->close(std::move(units), &gradients);
  co_await closing;
  if (service) {
    auto closed = service->closed();
    co_await closed;
  }
}

/// The same contributions where every worker has the sums; its weights lose them.
task::Task<void> train_alike(const EntriesCase* c, net::Transport* transport, SeenEntries* seen) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  comm::Communicator group(runtime, "data", everybody(c->workers));
  auto establish = group.establish();
  co_await establish;
  const Layout layout = layout_of();
  plan::LevelPlan level = c->level;
  level.topology = "all_reduce";
  const std::vector<plan::LevelPlan> plan{level};
  Levels levels(group, plan, {.seed = 5});
  tensor::Arena values(*transport, DType::Float32, layout.arena.size());
  levels.prepare(values, layout.arena.slots());
  const std::vector<LevelAlgorithms> rows(1);
  const Range range = layout.buckets[0].range;
  auto& weights = seen->weights[static_cast<std::size_t>(group.rank())];
  weights.resize(kEntries);
  for (int step = 0; step < kEntrySteps; ++step) {
    hand_in(*c, group.rank(), step, values.values<float>(range));
    auto reduce = levels.reduce({0, 0, range, &rows, step}, values);
    co_await reduce;
    for (std::size_t i = 0; i < kEntries; ++i) weights[i] -= values.values<float>(range)[i];
  }
  keep(levels.state(), range, seen);
}

SeenEntries run(const EntriesCase& c,
                task::Task<void> (*body)(const EntriesCase*, net::Transport*, SeenEntries*)) {
  SeenEntries seen{std::vector<std::vector<float>>(static_cast<std::size_t>(c.workers)),
                   std::vector<double>(kEntries)};
  const int ranks = body == train ? c.ranks() : c.workers;
  test::run_ranks(ranks, [&](net::Transport& t) { return body(&c, &t, &seen); }, {.share_memory = false});
  return seen;
}

/// Of (workers, dedicated servers).
class Asks : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  static EntriesCase given() { return {.workers = GetParam().first, .dedicated = GetParam().second}; }
};

TEST_P(Asks, WorkersHaveTheSameWeightsAndNothingIsLost) {
  EntriesCase c = given();
  c.level.codec.masking = false;
  const SeenEntries seen = run(c, train);
  for (const auto& weights : seen.weights) ASSERT_EQ(weights, seen.weights[0]);
  std::vector<double> pushed(kEntries), velocity(kEntries);
  double largest = 0;
  for (int rank = 0; rank < c.workers; ++rank) {
    std::fill(velocity.begin(), velocity.end(), 0.0);
    for (int step = 0; step < kEntrySteps; ++step) {
      const std::vector<float> mine = contribution(rank, step);
      for (std::size_t i = 0; i < kEntries; ++i) pushed[i] += velocity[i] = 0.5 * velocity[i] + mine[i];
    }
  }
  for (double value : pushed) largest = std::max(largest, std::abs(value));
  std::size_t moved = 0;
  for (std::size_t i = 0; i < kEntries; ++i) {
    ASSERT_NEAR(seen.state[i] - seen.weights[0][i], pushed[i], 1e-4 * (1 + largest)) << i;
    moved += seen.weights[0][i] != 0;
  }
  EXPECT_GT(moved, kEntries / 20);
}

TEST_P(Asks, SendAsManyBytesAsTheClosedForm) {
  const EntriesCase c = given();
  const SeenEntries seen = run(c, train);
  const double announced =
      find_topology("servers").sent(c.level, kEntries * sizeof(float), {c.ranks(), false, c.dedicated}, {});
  EXPECT_NEAR(announced, seen.bytes, 0.02 * seen.bytes);
  if (c.dedicated != 1) return;
  // P (T + 2 c k + 2 k) words at one server, and heads.
  const double k = 0.05 * kEntries, table = 5 * 608;
  EXPECT_NEAR(announced * c.ranks() / c.workers, 4 * (table + 8 * k + 2 * k), 0.05 * announced * c.ranks());
}

TEST_P(Asks, AGradientThatIsNotFiniteReachesAllAndNoMemory) {
  EntriesCase c = given();
  c.not_finite_at = kEntrySteps - 1;
  const SeenEntries seen = run(c, train);
  for (const auto& weights : seen.weights)
    EXPECT_TRUE(std::isnan(weights[c.dedicated == 1 ? kEntries - 1 : 0]));
  for (double value : seen.state) ASSERT_TRUE(std::isfinite(value));
}

INSTANTIATE_TEST_SUITE_P(Groups, Asks,
                         testing::Values(std::pair{1, 1}, std::pair{2, 1}, std::pair{4, 1}, std::pair{3, 2},
                                         std::pair{1, 0}, std::pair{2, 0}, std::pair{4, 0}),
                         [](const testing::TestParamInfo<std::pair<int, int>>& group) {
                           return std::to_string(group.param.first) + "_workers_" +
                                  std::to_string(group.param.second) + "_dedicated";
                         });

void expect_global_sketching(int workers, int neighbours) {
  SCOPED_TRACE(testing::Message() << workers << " workers, blocks of " << neighbours);
  EntriesCase c{.workers = workers, .dedicated = 1};
  c.level.codec.options.set("neighbours", neighbours);
  const SeenEntries asked = run(c, train), summed = run(c, train_alike);
  for (std::size_t i = 0; i < kEntries; ++i) {
    ASSERT_EQ(asked.weights[0][i], summed.weights[0][i]) << i;
    ASSERT_EQ(asked.state[i], summed.state[i]) << i;
  }
}

TEST(SketchedSgd, IsGlobalSketchingWhereOneServerHasTheSums) {
  for (int workers : {1, 2, 4, 5}) expect_global_sketching(workers, 1);
  expect_global_sketching(3, 16);
}

}  // namespace
}  // namespace taxon::exchange
