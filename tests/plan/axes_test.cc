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
  EXPECT_EQ(scheduling(), "lead 0, quorum 0, apply 0");
  EXPECT_EQ(axes_of(plan, test::catalogue()).optimisation, "servers");
  level.options = {{"staleness", -1}, {"apply", 2}};
  level.late = "compensated";
  EXPECT_EQ(scheduling(), "lead -1, quorum 0, apply 2, delay compensated");
  level.options = {{"staleness", "many"}};  // what its key does not allow is said elsewhere
  EXPECT_EQ(scheduling(), "synchronous, delay compensated");
}

TEST(Axes, WhatARunChoseTakesThePlaceOfAuto) {
  Plan plan = test::legal_plan();
  plan.resolved.buckets = {{.collectives = {"all_reduce direct"}},
                           {.collectives = {"all_reduce ring"}},
                           {.collectives = {"all_reduce direct"}}};
  EXPECT_EQ(axes_of(plan, test::catalogue()).communication, "all-reduce (direct, ring)");
}

TEST(Axes, TheMeshSaysWhatIsSplit) {
  Plan plan = test::legal_plan();
  EXPECT_EQ(axes_of(plan, test::catalogue()).parallelism, "data");
  plan.mesh.pipeline = 2;
  plan.pipeline.schedule = "zb_h1";
  EXPECT_EQ(axes_of(plan, test::catalogue()).parallelism, "data, pipeline (zb-h1)");
  plan.mesh = {.tensor = 2};
  EXPECT_EQ(axes_of(plan, test::catalogue()).parallelism, "data, tensor");
}

TEST(Axes, AreNamedInTheirOrder) {
  const auto named = by_name(axes_of(test::legal_plan(), test::catalogue()));
  EXPECT_EQ(named.front().first, "parallelism");
  EXPECT_EQ(named.back().first, "compression");
  EXPECT_EQ(named.back().second, "dense");
}

}  // namespace
}  // namespace taxon::plan
