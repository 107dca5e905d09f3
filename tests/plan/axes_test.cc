#include "plan/axes.h"

#include <gtest/gtest.h>

#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

TEST(Axes, APlanThatSaysNothingIsSynchronousAllReduce) {
  const Axes axes = axes_of(test::legal_plan(), test::catalogue());
  EXPECT_EQ(axes, (Axes{"data", "replicated", "synchronous", "all-reduce", "dense"}));
}

TEST(Axes, ShardsDelaysAndCollectivesAreSeen) {
  Plan plan = test::legal_plan();
  plan.exchange.levels = {{.topology = "sharded", .collective = "halving_doubling"}};
  plan.exchange.delay = 1;
  const Axes axes = axes_of(plan, test::catalogue());
  EXPECT_EQ(axes.optimisation, "sharded");
  EXPECT_EQ(axes.scheduling, "synchronous, delay 1");
  EXPECT_EQ(axes.communication, "sharded (halving-doubling)");
}

TEST(Axes, SufficientFactorsAreACompression) {
  Plan plan = test::legal_plan();
  plan.exchange.levels[0].factors = FactorUse::Auto;
  EXPECT_EQ(axes_of(plan, test::catalogue()).compression, "sufficient factors by rule");
  plan.exchange.levels[0].factors = FactorUse::Always;
  EXPECT_EQ(axes_of(plan, test::catalogue()).compression, "sufficient factors");
}

TEST(Axes, LevelsAreToldFromTheInsideOutward) {
  Plan plan = test::legal_plan();
  plan.exchange.levels = {{.group = LevelGroup::Node, .topology = "sharded"},
                          {.group = LevelGroup::Across, .collective = "ring"}};
  const Axes axes = axes_of(plan, test::catalogue());
  EXPECT_EQ(axes.optimisation, "sharded");
  EXPECT_EQ(axes.communication, "node: sharded; across: all-reduce (ring)");
}

TEST(Axes, ReplicasThatAreTrainedApartAreNamedByWhereTheyMeet) {
  Plan plan = test::legal_plan();
  plan.exchange.levels = {{.rule = "outer_nesterov", .period = 50, .fragments = 5, .delay = 2}};
  Axes axes = axes_of(plan, test::catalogue());
  EXPECT_EQ(axes.optimisation, "replicas, outer Nesterov");
  EXPECT_EQ(axes.scheduling, "synchronous, every 50 steps in 5 fragments, adopted 2 later");
  plan.exchange.levels = {{.topology = "gossip", .graph = "ring", .rule = "average"}};
  axes = axes_of(plan, test::catalogue());
  EXPECT_EQ(axes.optimisation, "replicas, mixed");
  EXPECT_EQ(axes.communication, "gossip (ring)");
  plan.exchange.levels = {{.topology = "pairs", .rule = "average"}};
  axes = axes_of(plan, test::catalogue());
  EXPECT_EQ(axes.optimisation, "replicas, mixed");
  EXPECT_EQ(axes.scheduling, "asynchronous");
  EXPECT_EQ(axes.communication, "pairs");
  plan.exchange.levels = {{.group = LevelGroup::Node, .topology = "sharded"},
                          {.group = LevelGroup::Across, .rule = "elastic"}};
  EXPECT_EQ(axes_of(plan, test::catalogue()).optimisation, "replicas, elastic centre; sharded");
}

TEST(Axes, ServersAreToldByTheirConsistency) {
  Plan plan = test::legal_plan();
  LevelPlan level{.topology = "servers"};
  auto scheduling = [&] {
    plan.exchange.levels = {level};
    return axes_of(plan, test::catalogue()).scheduling;
  };
  EXPECT_EQ(scheduling(), "synchronous");
  EXPECT_EQ(axes_of(plan, test::catalogue()).optimisation, "servers");
  level.staleness = 3;
  EXPECT_EQ(scheduling(), "staleness 3");
  level.staleness = -1;
  level.apply = 1;
  EXPECT_EQ(scheduling(), "asynchronous");
  level.apply = 2;
  EXPECT_EQ(scheduling(), "asynchronous, 2 an update");
  level.late = "compensated";
  EXPECT_EQ(scheduling(), "asynchronous, 2 an update, delay compensated");
  level.late = "as_others";
  level.staleness = level.apply = 0;
  level.quorum = 3;
  EXPECT_EQ(scheduling(), "synchronous, quorum 3");
}

TEST(Axes, WhatARunChoseTakesThePlaceOfAuto) {
  Plan plan = test::legal_plan();
  plan.resolved.buckets = {{.collectives = {"all_reduce direct"}},
                           {.collectives = {"all_reduce ring"}},
                           {.collectives = {"all_reduce direct"}}};
  EXPECT_EQ(axes_of(plan, test::catalogue()).communication, "all-reduce (direct, ring)");
}

TEST(Axes, AreNamedInTheirOrder) {
  const auto named = by_name(axes_of(test::legal_plan(), test::catalogue()));
  EXPECT_EQ(named.front().first, "parallelism");
  EXPECT_EQ(named.back().first, "compression");
  EXPECT_EQ(named.back().second, "dense");
}

}  // namespace
}  // namespace taxon::plan
