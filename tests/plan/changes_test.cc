#include "plan/changes.h"

#include <gmock/gmock.h>

#include <filesystem>

namespace taxon::plan {
namespace {

TEST(Changes, DefaultsChangeNothing) { EXPECT_EQ(write_changes(Plan{}), "{}\n"); }

TEST(Changes, AreNoMoreThanWhatWasGiven) {
  const Plan plan = parse_plan(
      "name: x\nbatch: {global: 40}\nexchange: {levels: [{codec: {name: top_k}}, {}]}\n", "r.yaml");
  EXPECT_EQ(
      write_changes(plan),
      "name: x\nbatch:\n  global: 40\nexchange:\n  levels:\n    - codec:\n        name: top_k\n    - {}\n");
}

TEST(Changes, LeaveOutWhatARunResolves) {
  Plan plan;
  plan.resolved.world_size = 3;
  EXPECT_EQ(write_changes(plan), "{}\n");
}

TEST(Changes, OfEveryRecipeAreTheRecipe) {
  int recipes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TAXON_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    ++recipes;
    const Plan plan = read_plan(entry.path());
    const std::string changes = write_changes(plan);
    EXPECT_EQ(parse_plan(changes, "changes"), plan) << entry.path();
    EXPECT_LT(changes.size(), write_plan(plan).size() / 3) << entry.path();
  }
  EXPECT_GT(recipes, 50);
}

}  // namespace
}  // namespace taxon::plan
