#include "exchange/extensions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exchange/compression/coded.h"
#include "exchange/levels/algorithm_selection.h"
#include "exchange/levels/levels.h"
#include "support/errors.h"

namespace taxon::exchange {
namespace {

using testing::Contains;

constexpr TopologyRow kTopologies[] = {
    {"silent", nullptr, net::Operation::User, net::Operation::User,
     [](std::size_t count, int) { return count / 2; },
     [](const plan::LevelPlan&, std::size_t, const LevelShape&, const Extensions&) { return 7.0; },
     [](const plan::LevelPlan&, const Extensions&) { return Scheduling::Free; }},
    {"sharded", nullptr, net::Operation::User, net::Operation::User,
     [](std::size_t count, int) { return count; }, nullptr}};
constexpr GraphRow kGraphs[] = {{"star", nullptr}};
constexpr optim::OuterRow kOuter[] = {{"frozen", "nothing moves", nullptr, 0}};
constexpr optim::LateRow kLate[] = {
    {"forgotten", "late gradients count nothing", optim::LateRow::Corrects::Gradients, true, nullptr}};
constexpr optim::RuleRow kRules[] = {{"lion", nullptr, 1}};
constexpr comm::CollectiveRow kCollectives[] = {
    {net::Operation::AllReduce, "free", [](const comm::Shape&) { return true; },
     [](const comm::Shape&, const comm::LinkCost&) { return 0.0; }, [](const comm::Shape&) { return 1.0; },
     nullptr}};
constexpr ConsistencyRow kConsistencies[] = {
    {.name = "patient",
     .sentence = "all wait for all, some day",
     .make = nullptr,
     .bounds = [](const plan::LevelPlan&) { return plan::ConsistencyBounds{.lead = 7, .apply = 1}; }}};
constexpr Extensions kOwn{.topologies = kTopologies,
                          .graphs = kGraphs,
                          .outer_rules = kOuter,
                          .late_rules = kLate,
                          .rules = kRules,
                          .collectives = kCollectives,
                          .consistencies = kConsistencies};

TEST(Extensions, AreFoundBeforeThoseOfTheTables) {
  EXPECT_EQ(&find_topology("sharded", kTopologies), &kTopologies[1]);
  EXPECT_NE(&find_topology("sharded"), &kTopologies[1]);
  EXPECT_EQ(&find_topology("all_reduce", kTopologies), &find_topology("all_reduce"));
  EXPECT_EQ(&find_graph("star", kGraphs), &kGraphs[0]);
  EXPECT_EQ(&optim::find_outer("frozen", kOuter), &kOuter[0]);
  EXPECT_EQ(&optim::find_late("forgotten", kLate), &kLate[0]);
  EXPECT_EQ(&optim::find_rule("lion", kRules), &kRules[0]);
  EXPECT_EQ(&find_consistency("patient", kConsistencies), &kConsistencies[0]);
}

TEST(Extensions, AreNobodyElses) {
  EXPECT_THROW(find_topology("silent"), Error);
  EXPECT_THROW(find_graph("star"), Error);
  EXPECT_THROW(optim::find_outer("frozen"), Error);
  EXPECT_THROW(optim::find_late("forgotten"), Error);
  EXPECT_THROW(optim::find_rule("lion"), Error);
  EXPECT_THROW(find_consistency("patient"), Error);
}

TEST(Extensions, TellPaceSizesAndTraffic) {
  const std::vector<plan::LevelPlan> levels = {{.topology = "silent"}};
  EXPECT_FALSE(workers_keep_step(levels, kOwn));
  EXPECT_FALSE(workers_are_bounded(levels, kOwn));
  plan::Plan plan;
  plan.exchange.levels = levels;
  plan.resolved.buckets = {{.parameters = {"w"}, .bytes = 40}};
  const LevelShape shapes[] = {{3, false}};
  resolve_exchange(plan, shapes, kOwn);
  const plan::BucketPlan& bucket = plan.resolved.buckets[0];
  EXPECT_TRUE(bucket.collectives.empty());
  EXPECT_EQ(rows_of(bucket, levels, kOwn).size(), 1u);
  EXPECT_EQ(bytes_owned(bucket, levels, shapes, kOwn), 20u);
  EXPECT_EQ(bytes_sent(bucket, levels, {.shapes = shapes, .own = kOwn}), 7);
}

/// Named, or chosen because it is the cheapest; also for the wires of a codec that an all-reduce sums.
TEST(Extensions, CollectivesServeLevelsAndAreWeighedAgainstTheTables) {
  const LevelShape shapes[] = {{3, false}};
  for (const char* collective : {"free", "auto"}) {
    plan::Plan plan;
    plan.exchange.levels = {{.collective = collective}};
    plan.resolved.buckets = {{.parameters = {"w"}, .bytes = 40}};
    resolve_exchange(plan, shapes, kOwn);
    const plan::BucketPlan& bucket = plan.resolved.buckets[0];
    EXPECT_EQ(bucket.collectives, (std::vector<std::string>{"all_reduce free"}));
    EXPECT_EQ(rows_of(bucket, plan.exchange.levels, kOwn)[0].reduce, &kCollectives[0]);
    EXPECT_THROW(rows_of(bucket, plan.exchange.levels), Error);
    EXPECT_EQ(bytes_sent(bucket, plan.exchange.levels, {.shapes = shapes, .own = kOwn}), 1);
  }
  const plan::LevelPlan coded{.collective = "free", .codec = {.name = "random_k"}};
  EXPECT_EQ(coded_bytes_sent(coded, {100, {}}, 3, kOwn), 1);
  EXPECT_THROW(coded_bytes_sent(coded, {100, {}}, 3), Error);
}

TEST(Extensions, OfServersSayWhetherWorkersKeepStep) {
  const std::vector<plan::LevelPlan> levels = {{.topology = "servers", .consistency = "patient"}};
  EXPECT_FALSE(workers_keep_step(levels, kOwn));
  EXPECT_TRUE(workers_are_bounded(levels, kOwn));
  plan::Plan plan;
  plan.mesh.servers = 1;
  plan.exchange.levels = levels;
  EXPECT_EQ(expendable_ranks(plan, 4, kOwn), (std::vector{Rank(1), Rank(2)}));
}

TEST(Extensions, AreKnownToTheLegalityTable) {
  const plan::Catalogue known = catalogue(kOwn);
  EXPECT_THAT(known.graphs, Contains("star"));
  EXPECT_TRUE(known.find_outer("frozen"));
  EXPECT_TRUE(known.find_rule("lion"));
  EXPECT_EQ(known.topologies.front().name, "silent");
  EXPECT_EQ(known.lates.front().name, "forgotten");
  EXPECT_EQ(known.consistencies.front().name, "patient");
  EXPECT_EQ(known.bounds_of({.consistency = "patient"}).lead, 7);
  EXPECT_TRUE(known.lates.front().gradients && !known.lates.front().weights);
  EXPECT_EQ(known.topologies.size(), topology_table().size() + 2);
  EXPECT_THAT(known.find_topology("all_reduce")->collectives, Contains("free"));
  EXPECT_EQ(known.find_topology("all_reduce")->collectives.size(),
            catalogue().find_topology("all_reduce")->collectives.size() + 1);
}

}  // namespace
}  // namespace taxon::exchange
