#include "exchange/extensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/levels.h"
#include "support/errors.h"

namespace taxon::exchange {
namespace {

using testing::Contains;

constexpr TopologyRow kTopologies[] = {
    {"silent", nullptr, net::Operation::User, net::Operation::User,
     [](std::size_t count, int) { return count / 2; },
     [](const plan::LevelPlan&, std::size_t, const LevelShape&, const OwnRows&) { return 7.0; },
     [](const plan::LevelPlan&) { return Scheduling::Free; }},
    {"sharded", nullptr, net::Operation::User, net::Operation::User,
     [](std::size_t count, int) { return count; }, nullptr}};
constexpr GraphRow kGraphs[] = {{"star", nullptr}};
constexpr optim::OuterRow kOuter[] = {{"frozen", "nothing moves", nullptr, 0}};
constexpr optim::LateRow kLate[] = {
    {"forgotten", "late gradients count nothing", optim::LateRow::Corrects::Gradients, true, nullptr}};
constexpr optim::RuleRow kRules[] = {{"lion", nullptr, 1}};
constexpr Extensions kOwn{kTopologies, kGraphs, kOuter, kLate, kRules};

TEST(Extensions, AreFoundBeforeThoseOfTheTables) {
  EXPECT_EQ(&find_topology("sharded", kTopologies), &kTopologies[1]);
  EXPECT_NE(&find_topology("sharded"), &kTopologies[1]);
  EXPECT_EQ(&find_topology("all_reduce", kTopologies), &find_topology("all_reduce"));
  EXPECT_EQ(&find_graph("star", kGraphs), &kGraphs[0]);
  EXPECT_EQ(&optim::find_outer("frozen", kOuter), &kOuter[0]);
  EXPECT_EQ(&optim::find_late("forgotten", kLate), &kLate[0]);
  EXPECT_EQ(&optim::find_rule("lion", kRules), &kRules[0]);
}

TEST(Extensions, AreNobodyElses) {
  EXPECT_THROW(find_topology("silent"), Error);
  EXPECT_THROW(find_graph("star"), Error);
  EXPECT_THROW(optim::find_outer("frozen"), Error);
  EXPECT_THROW(optim::find_late("forgotten"), Error);
  EXPECT_THROW(optim::find_rule("lion"), Error);
}

TEST(Extensions, TellPaceSizesAndTraffic) {
  const std::vector<plan::LevelPlan> levels = {{.topology = "silent"}};
  EXPECT_FALSE(workers_keep_step(levels, kTopologies));
  EXPECT_FALSE(workers_are_bounded(levels, kTopologies));
  plan::Plan plan;
  plan.exchange.levels = levels;
  plan.resolved.buckets = {{.parameters = {"w"}, .bytes = 40}};
  const LevelShape shapes[] = {{3, false}};
  resolve_exchange(plan, shapes, kTopologies);
  const plan::BucketPlan& bucket = plan.resolved.buckets[0];
  EXPECT_TRUE(bucket.collectives.empty());
  EXPECT_EQ(rows_of(bucket, levels, kTopologies).size(), 1u);
  EXPECT_EQ(bytes_owned(bucket, levels, shapes, kTopologies), 20u);
  EXPECT_EQ(bytes_sent(bucket, levels, {.shapes = shapes, .own = kTopologies}), 7);
}

TEST(Extensions, AreKnownToTheLegalityTable) {
  const plan::Catalogue known = catalogue(kOwn);
  EXPECT_THAT(known.graphs, Contains("star"));
  EXPECT_TRUE(known.find_outer("frozen"));
  EXPECT_TRUE(known.find_rule("lion"));
  EXPECT_EQ(known.topologies.front().name, "silent");
  EXPECT_EQ(known.lates.front().name, "forgotten");
  EXPECT_TRUE(known.lates.front().gradients && !known.lates.front().weights);
  EXPECT_EQ(known.topologies.size(), topology_table().size() + 2);
}

}  // namespace
}  // namespace taxon::exchange
