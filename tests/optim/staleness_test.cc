#include "optim/staleness.h"

#include <gtest/gtest.h>

#include <cmath>

#include "optim/outer.h"

namespace taxon::optim {
namespace {

constexpr std::size_t kLateElements = 3;
constexpr Range kLateAll{0, kLateElements};

/// An owner's values, contributions and two workers.
class Late : public ::testing::Test {
 protected:
  Late() : now_(DType::Float64, kLateElements), handed_in_(DType::Float64, kLateElements) {}
  std::unique_ptr<StalenessRule> make(const char* name, double compensation = 0) {
    plan::LevelPlan plan;
    plan.late = name;
    plan.options.set("compensation", compensation);
    return find_late(name).make(plan, {DType::Float64, kLateElements, 2, {}});
  }
  void set_now(double value) { fill(now_, value); }
  /// What becomes of a contribution whose elements are all `value`.
  double correct(StalenessRule& rule, double value, const Lateness& lateness) {
    fill(handed_in_, value);
    rule.correct(handed_in_, now_, UpdateRange::same(kLateAll), lateness);
    auto values = handed_in_.values<double>(kLateAll);
    for (double other : values) EXPECT_EQ(other, values[0]);
    return values[0];
  }
  void serve(StalenessRule& rule, int worker) { rule.served(worker, now_, UpdateRange::same(kLateAll)); }

  tensor::Arena now_, handed_in_;

 private:
  static void fill(const tensor::Arena& arena, double value) {
    for (double& element : arena.values<double>(kLateAll)) element = value;
  }
};

TEST_F(Late, LessDividesByOnePlusTheStaleness) {
  auto rule = make("less");
  EXPECT_DOUBLE_EQ(correct(*rule, 6, {.staleness = 0}), 6);
  EXPECT_DOUBLE_EQ(correct(*rule, 6, {.staleness = 2}), 2);
}

// Worker 0 was served w = 1, worker 1 w = 1.5; now w = 2.
// g + lambda g g (w - w_bak) for g = 3, lambda = 0.5: 3 + 0.5 * 9 * 1 = 7.5, and 3 + 0.5 * 9 * 0.5 = 5.25.
TEST_F(Late, CompensationIsTheDiagonalOfThePublishedTaylorStep) {
  auto rule = make("compensated", 0.5);
  set_now(1);
  serve(*rule, 0);
  set_now(1.5);
  serve(*rule, 1);
  set_now(2);
  EXPECT_DOUBLE_EQ(correct(*rule, 3, {.worker = 0, .staleness = 4}), 7.5);
  EXPECT_DOUBLE_EQ(correct(*rule, 3, {.worker = 1, .staleness = 1}), 5.25);
}

/// A worker hands in its share of the mean gradient, here a quarter of g = 3.
TEST_F(Late, CompensationIsOfTheWorkersOwnMeanGradient) {
  auto rule = make("compensated", 0.5);
  set_now(1);
  serve(*rule, 0);
  set_now(2);
  EXPECT_DOUBLE_EQ(correct(*rule, 0.75, {.worker = 0, .share = 0.25}), 0.25 * 7.5);
  EXPECT_EQ(correct(*rule, 0, {.worker = 0, .share = 0}), 0);  // a worker without samples
}

TEST_F(Late, CompensationLeavesAloneWhatIsNotLateOrNotToBeCompensated) {
  for (const char* name : {"compensated", "compensated_adaptively"}) {
    auto rule = make(name, 2);
    set_now(1.25);
    serve(*rule, 1);
    EXPECT_EQ(correct(*rule, 3, {.worker = 1}), 3) << name;
    auto without = make(name, 0);
    EXPECT_EQ(correct(*without, 3, {.worker = 1}), 3) << name;
  }
}

// ms1 = 0.05 * 9 = 0.45, then with g = 1: ms2 = 0.95 * 0.45 + 0.05 = 0.4775, of all workers together.
TEST_F(Late, AdaptiveCompensationDividesByTheRootOfTheMeanSquare) {
  auto rule = make("compensated_adaptively", 2);
  set_now(1);
  serve(*rule, 0);
  serve(*rule, 1);
  set_now(1.5);
  EXPECT_NEAR(correct(*rule, 3, {.worker = 0}), 3 + 2 / std::sqrt(0.45 + 1e-7) * 9 * 0.5, 1e-12);
  EXPECT_NEAR(correct(*rule, 1, {.worker = 1}), 1 + 2 / std::sqrt(0.4775 + 1e-7) * 1 * 0.5, 1e-12);
}

// Served 1, came to 0.4, and the owner has 3 by now: as if it had gone from 3 to 2.4.
TEST_F(Late, AMovedReplicaSetsOutFromWhereTheOwnerIs) {
  auto rule = make("moved");
  set_now(1);
  serve(*rule, 1);
  set_now(3);
  EXPECT_DOUBLE_EQ(correct(*rule, 0.4, {.worker = 1}), 2.4);
}

/// ADAG at a server, by hand: workers set out from W = 1, tau = 5, rate 1. One comes back with 0.5, so that W
/// = 1 + (0.5 - 1) / 5 = 0.9; the other with 2, so that W = 0.9 + (2 - 1) / 5 = 1.1.
TEST_F(Late, MovedAndAccumulatedAreAccumulatedGradientNormalisation) {
  plan::LevelPlan plan;
  plan.period = 5;
  auto late = make("moved");
  auto rule = find_outer("accumulated").make(plan, {DType::Float64, kLateElements, 2, {}});
  set_now(1);
  rule->begin(now_, UpdateRange::same(kLateAll));
  serve(*late, 0);
  serve(*late, 1);
  auto meet = [&](int worker, double came_to) {
    for (double& value : handed_in_.values<double>(kLateAll)) value = came_to;
    late->correct(handed_in_, *rule->centre(), UpdateRange::same(kLateAll), {.worker = worker});
    rule->update(handed_in_, UpdateRange::same(kLateAll), 1, {});
    return handed_in_.values<double>(kLateAll)[0];
  };
  EXPECT_DOUBLE_EQ(meet(0, 0.5), 0.9);
  EXPECT_DOUBLE_EQ(meet(1, 2), 1.1);
}

TEST_F(Late, EveryRowThatKeepsWhatItServedHasIt) {
  EXPECT_EQ(find_late("as_others").make({}, {}), nullptr);
  for (const LateRow& row : late_table())
    if (auto rule = make(row.name.data())) {
      EXPECT_EQ(rule->state().size() >= 2, row.keeps_served) << row.name;
      for (const auto& [name, arena] : rule->state()) EXPECT_EQ(arena->size(), kLateElements) << name;
    }
}

}  // namespace
}  // namespace taxon::optim
