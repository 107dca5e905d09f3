#include "plan/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace taxon::plan {
namespace {

std::vector<std::string> keys_of(const std::vector<Difference>& differences) {
  std::vector<std::string> keys;
  for (const Difference& difference : differences) keys.push_back(difference.key);
  return keys;
}

TEST(PlanDifferences, AreListedByKeyWithBothValues) {
  Plan before, now;
  EXPECT_TRUE(differences(before, now).empty());
  now.seed = 2;
  now.learning_rate.base = 0.25;
  now.model.frozen = {"a", "b"};
  now.exchange.levels.push_back({.topology = "sharded"});
  now.exchange.levels[0].codec.name = "top_k";
  now.resolved.world_size = 4;
  const auto all = differences(before, now);
  EXPECT_THAT(keys_of(all),
              testing::IsSupersetOf({"seed", "model.frozen", "learning_rate.base",
                                     "exchange.levels[0].codec.name", "exchange.levels[1].topology"}));
  EXPECT_EQ(all[0].before, "1");
  EXPECT_EQ(all[0].now, "2");
  EXPECT_THAT(keys_of(all), testing::Not(testing::Contains("resolved.world_size")));
  EXPECT_EQ(differences(now, before).size(), all.size());
}

TEST(PlanDifferences, ThatAnAssignmentGivesAreMeant) {
  Plan before, now;
  before.batch.global = 8;
  now.batch.per_worker = 4;
  now.seed = 2;
  now.exchange.levels[0].codec.options.set("density", 0.5);
  const auto all = differences(before, now);
  EXPECT_EQ(keys_of(not_given(all, {})), keys_of(all));
  EXPECT_THAT(keys_of(not_given(all, {"seed=2"})), testing::Not(testing::Contains("seed")));
  EXPECT_THAT(keys_of(not_given(all, {"seeds=2"})), testing::Contains("seed"));
  // One of two that stand for each other is enough; a section gives what is in it.
  EXPECT_THAT(keys_of(not_given(all, {"batch.per_worker=4", "seed=2"})),
              testing::ElementsAre("exchange.levels[0].codec.density"));
  EXPECT_TRUE(
      not_given(all, {"batch={per_worker: 4}", "seed=2", "exchange.levels.0.codec.density=0.5"}).empty());
}

}  // namespace
}  // namespace taxon::plan
