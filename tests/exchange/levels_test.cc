#include "exchange/levels/levels.h"

#include <gtest/gtest.h>

#include "exchange/compression/coded.h"
#include "exchange/levels/algorithm_selection.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::exchange {
namespace {

plan::LevelPlan level(std::string_view group, std::string topology, std::string collective = "auto") {
  return {plan::choice_from<plan::LevelGroup>(group).value(), std::move(topology), std::move(collective)};
}

struct LevelCase {
  int ranks = 1, node = 0;
  std::vector<plan::LevelPlan> levels;
  std::size_t elements = 0;
};

/// Sums, doubles what it owns, spreads: every element must be twice the sum of all ranks' contributions.
task::Task<void> sum_and_spread(const LevelCase* c, net::Transport* transport, std::vector<double>* owners) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  std::vector<Rank> everybody;
  for (int r = 0; r < c->ranks; ++r) everybody.emplace_back(r);
  comm::Communicator all(runtime, "data", everybody);
  auto establish = all.establish();
  co_await establish;
  Levels levels(all, c->levels, {.node = c->node});
  auto establish_levels = levels.establish();
  co_await establish_levels;
  plan::Plan plan;
  plan.exchange.levels = c->levels;
  plan.resolved.buckets.push_back(
      {.parameters = {"w"}, .bytes = static_cast<std::int64_t>(c->elements * sizeof(double))});
  std::vector<LevelShape> shapes;
  for (std::size_t l = 0; l < levels.size(); ++l)
    shapes.push_back({levels.group(l).size(), levels.group(l).shares_memory()});
  resolve_exchange(plan, shapes);
  const std::vector<LevelAlgorithms> rows = rows_of(plan.resolved.buckets.front(), c->levels);

  tensor::Arena values(*transport, DType::Float64, std::max<std::size_t>(1, c->elements));
  auto share = levels.share(values.region());
  co_await share;
  const Range range{0, c->elements};
  auto numbers = values.values<double>(range);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<double>(i + 1) * (runtime.rank().value() + 1);
  BucketTransfer transfer{0, 0, range, &rows};
  auto reduce = levels.reduce(transfer, values);
  co_await reduce;
  const Range owned = levels.owned(range);
  for (double& value : values.values<double>(owned)) value *= 2;
  for (std::size_t i = owned.begin; i < owned.end(); ++i) ++(*owners)[i];
  auto spread = levels.spread(transfer, values);
  co_await spread;
  const double ranks_sum = c->ranks * (c->ranks + 1) / 2.0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(numbers[i], 2 * ranks_sum * static_cast<double>(i + 1)) << i;
  auto total = levels.total(static_cast<double>(owned.size), 0);
  double sum = co_await total;
  EXPECT_EQ(sum, static_cast<double>(c->elements));
  auto close = comm::find_row(net::Operation::Barrier, "dissemination").run(all, comm::Call{});
  co_await close;
}

TEST(Levels, EveryNestingSumsAndSpreads) {
  const std::vector<std::vector<plan::LevelPlan>> nestings = {
      {level("data", "all_reduce")},
      {level("data", "sharded")},
      {level("data", "sharded", "ring")},
      {level("node", "all_reduce"), level("across", "all_reduce")},
      {level("node", "sharded"), level("across", "all_reduce", "ring")},
      {level("node", "sharded"), level("across", "sharded", "ring")},
      {level("node", "all_reduce"), level("across", "sharded")},
  };
  for (bool share_memory : {true, false})
    for (const auto& nesting : nestings)
      for (auto [ranks, node] :
           std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {2, 2}, {4, 2}, {6, 3}, {6, 2}})
        for (std::size_t elements : {0, 1, 5, 1000}) {
          LevelCase c{ranks, node, nesting, elements};
          SCOPED_TRACE(testing::Message() << nesting[0].topology << " x" << nesting.size() << ", " << ranks
                                          << " ranks, nodes of " << node << ", " << elements << " elements");
          std::vector<double> owners(elements, 0);
          test::run_ranks(ranks, [&](net::Transport& t) { return sum_and_spread(&c, &t, &owners); },
                          {.share_memory = share_memory});
          // Each element has as many owners as any other: the replicas of its shard.
          for (double count : owners) EXPECT_EQ(count, owners.front());
        }
}

TEST(Members, AreTheNodeOrThoseOfEqualPosition) {
  auto numbers = [](const std::vector<Rank>& ranks) {
    std::vector<int> list;
    for (Rank rank : ranks) list.push_back(rank.value());
    return list;
  };
  EXPECT_EQ(numbers(members_of(plan::LevelGroup::Data, Rank(1), 3, 0)), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(numbers(members_of(plan::LevelGroup::Node, Rank(4), 6, 3)), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(numbers(members_of(plan::LevelGroup::Across, Rank(4), 6, 3)), (std::vector<int>{1, 4}));
}

TEST(Rows, OfARecordingForOtherLevelsAreRefused) {
  plan::BucketPlan bucket{.parameters = {"w"}, .bytes = 100, .collectives = {"all_reduce ring"}};
  EXPECT_NE(rows_of(bucket, {level("data", "all_reduce")}).front().reduce, nullptr);
  EXPECT_THROW(rows_of(bucket, {level("data", "sharded")}), Error);
  bucket.collectives = {"all_gather ring", "reduce_scatter ring"};
  EXPECT_THROW(rows_of(bucket, {level("data", "sharded")}), Error);
}

TEST(Resolve, NamesTheCollectivesOutwardAndBack) {
  plan::Plan plan;
  plan.exchange.levels = {level("node", "sharded", "ring"), level("across", "all_reduce", "tree")};
  plan.resolved.buckets.push_back({.parameters = {"w"}, .bytes = 4000});
  resolve_exchange(plan, std::vector<LevelShape>{{2, true}, {4, false}});
  EXPECT_EQ(plan.resolved.buckets.front().collectives,
            (std::vector<std::string>{"reduce_scatter ring", "all_reduce tree", "all_gather ring"}));
  EXPECT_EQ(plan.resolved.overlap, plan::ResolvedOverlap::Forward);
  EXPECT_EQ(bytes_owned(plan.resolved.buckets.front(), plan.exchange.levels,
                        std::vector<LevelShape>{{2, true}, {4, false}}),
            2000u);
  resolve_exchange(plan, std::vector<LevelShape>{{2, true}, {1, false}});
  EXPECT_EQ(plan.resolved.buckets.front().collectives[1], "all_reduce none");
}

/// At the start, rather than at the first bucket.
TEST(Resolve, RefusesACollectiveOfSharedMemoryForTheWiresOfACodec) {
  plan::Plan plan;
  plan.exchange.levels = {level("data", "all_reduce", "direct")};
  plan.exchange.levels[0].codec.name = "random_k";
  plan.resolved.buckets.push_back({.parameters = {"w"}, .bytes = 4000});
  EXPECT_THROW(resolve_exchange(plan, std::vector<LevelShape>{{4, true}}), Error);
  resolve_exchange(plan, std::vector<LevelShape>{{1, true}});
  plan.exchange.levels[0].collective = "ring";
  resolve_exchange(plan, std::vector<LevelShape>{{4, true}});
}

TEST(Resolve, RefusesACodecForMoreValuesThanItsWiresName) {
  auto resolve = [](const char* codec, std::int64_t values) {
    plan::Plan plan;
    plan.exchange.levels[0].codec.name = codec;
    plan.resolved.buckets.push_back({.parameters = {"w"}, .bytes = 4 * values});
    resolve_exchange(plan, std::vector<LevelShape>{{4, false}});
  };
  const std::int64_t words = std::int64_t{1} << 31, places = std::int64_t{1} << 32;
  for (const char* codec : {"threshold", "adaptive_threshold"}) {
    EXPECT_THROW(resolve(codec, words), Error) << codec;
    resolve(codec, words - 64);
  }
  EXPECT_THROW(resolve("top_k", places), Error);
  resolve("top_k", words);
}

/// Of as few values as the codec leaves as they are.
TEST(BytesSent, OfALevelWithACodecFollowTheCollectiveThatItNames) {
  const comm::CollectiveRow own[] = {{net::Operation::AllReduce, "own",
                                      [](const comm::Shape&) { return true; },
                                      [](const comm::Shape&, const comm::LinkCost&) { return 1e9; },
                                      [](const comm::Shape& shape) { return 7.0 * shape.size; }, nullptr}};
  plan::LevelPlan level = exchange::level("data", "all_reduce", "own");
  level.codec = {.name = "random_k", .dense_below = 1000};
  EXPECT_EQ(coded_bytes_sent(level, {100, {}}, 8, {.collectives = own}), 56);
}

}  // namespace
}  // namespace taxon::exchange
