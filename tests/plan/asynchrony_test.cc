#include "plan/asynchrony.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

using testing::HasSubstr;

Plan served(std::int64_t staleness, int apply, double momentum = 0.9) {
  Plan plan = test::legal_plan();
  plan.optimiser.momentum = momentum;
  plan.exchange.levels = {{.topology = "servers", .options = {{"staleness", staleness}, {"apply", apply}}}};
  return plan;
}

TEST(Asynchrony, IsTheWorkersForEachContributionOfAnUpdate) {
  EXPECT_EQ(asynchrony(served(-1, 1), 4, test::catalogue()), 4);
  EXPECT_EQ(asynchrony(served(2, 1), 4, test::catalogue()), 4);
  EXPECT_EQ(asynchrony(served(-1, 2), 4, test::catalogue()), 2);  // n-softsync
  EXPECT_EQ(asynchrony(served(0, 0), 4, test::catalogue()), 1);
  EXPECT_EQ(asynchrony(served(0, 3), 4, test::catalogue()), 1);   // backup workers
  EXPECT_EQ(asynchrony(served(-1, 0), 4, test::catalogue()), 1);  // an update of all
  EXPECT_EQ(asynchrony(test::legal_plan(), 4, test::catalogue()), 1);
  Plan dedicated = served(-1, 1);
  dedicated.mesh.servers = 1;
  EXPECT_EQ(asynchrony(dedicated, 4, test::catalogue()), 3);
}

/// Omnivore: 1 - 1/g is what g groups add, however many workers each has.
TEST(Asynchrony, IsOfGroupsWhereNodesContributeAsOne) {
  Plan plan = served(-1, 1);
  plan.mesh.node = 4;
  plan.exchange.levels = {
      {.group = LevelGroup::Node, .topology = "sharded"},
      {.group = LevelGroup::Across, .topology = "servers", .options = {{"staleness", -1}, {"apply", 1}}}};
  EXPECT_EQ(asynchrony(plan, 8, test::catalogue()), 2);
  EXPECT_NEAR(momentum_at_servers(plan, 8, test::catalogue()), 0.8, 1e-12);
}

TEST(Asynchrony, ReplicasHaveTheirMomentumForThemselves) {
  Plan plan = served(-1, 1);
  plan.exchange.levels[0].rule = "elastic";
  EXPECT_EQ(asynchrony(plan, 4, test::catalogue()), 1);
  EXPECT_EQ(momentum_at_servers(plan, 4, test::catalogue()), 0.9);
}

// 1 - (1 - 0.9) * 2 = 0.8, with 4 workers 0.6, and none with 10 or more.
TEST(Asynchrony, LowersMomentumByWhatItAdds) {
  EXPECT_NEAR(momentum_at_servers(served(-1, 1), 1, test::catalogue()), 0.9, 1e-12);
  EXPECT_NEAR(momentum_at_servers(served(-1, 1), 2, test::catalogue()), 0.8, 1e-12);
  EXPECT_NEAR(momentum_at_servers(served(-1, 1), 4, test::catalogue()), 0.6, 1e-12);
  EXPECT_NEAR(momentum_at_servers(served(-1, 2), 4, test::catalogue()), 0.8, 1e-12);
  EXPECT_NEAR(momentum_at_servers(served(-1, 1), 10, test::catalogue()), 0, 1e-12);
  EXPECT_EQ(momentum_at_servers(served(-1, 1), 100, test::catalogue()), 0);
  EXPECT_EQ(momentum_at_servers(served(0, 0), 100, test::catalogue()), 0.9);
  EXPECT_EQ(momentum_at_servers(served(-1, 1, 0), 4, test::catalogue()), 0);
}

TEST(Asynchrony, APlanMayInsistAndIsWarnedWithTheNumbers) {
  Plan plan = served(-1, 1);
  plan.optimiser.asynchronous_momentum = AsynchronousMomentum::AsGiven;
  EXPECT_EQ(momentum_at_servers(plan, 4, test::catalogue()), 0.9);
  const auto warning = momentum_notice(plan, 4, test::catalogue());
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("optimiser.momentum 0.9 acts like 0.975"));
  EXPECT_THAT(*warning, HasSubstr("4 asynchronous updates"));
  EXPECT_THAT(*warning, HasSubstr("lowered would take 0.6"));
}

TEST(Asynchrony, SaysThatItLoweredAndOtherwiseNothing) {
  const auto notice = momentum_notice(served(-1, 1), 4, test::catalogue());
  ASSERT_TRUE(notice);
  EXPECT_THAT(*notice, HasSubstr("optimiser.momentum 0.9 is 0.6 at the servers"));
  EXPECT_FALSE(momentum_notice(served(-1, 1), 1, test::catalogue()));
  EXPECT_FALSE(momentum_notice(served(0, 0), 4, test::catalogue()));
  EXPECT_FALSE(momentum_notice(served(-1, 1, 0), 4, test::catalogue()));
  Plan plain = served(-1, 1);
  plain.optimiser.rule = "sgd";
  EXPECT_FALSE(momentum_notice(plain, 4, test::catalogue()));
}

}  // namespace
}  // namespace taxon::plan
