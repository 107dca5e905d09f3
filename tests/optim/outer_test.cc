#include "optim/outer.h"

#include <gtest/gtest.h>

#include <numeric>

namespace taxon::optim {
namespace {

constexpr std::size_t kElements = 5;
constexpr Range kAll{0, kElements};

class Outer : public ::testing::Test {
 protected:
  Outer() : weights_(DType::Float64, kElements), sum_(DType::Float64, kElements) {
    auto w = weights_.values<double>(kAll);
    std::iota(w.begin(), w.end(), 1.0);
  }
  std::unique_ptr<OuterRule> make(const char* name, double rate, double momentum, int members = 2) {
    plan::LevelPlan plan;
    plan.rule = name;
    plan.rate = rate;
    plan.momentum = momentum;
    auto rule = find_outer(name).make(plan, {DType::Float64, kElements, members, {}});
    rule->begin(weights_, UpdateRange::same(kAll));
    return rule;
  }
  /// The answer's first element when the replicas' mean has moved on by `moved`.
  double answer(OuterRule& rule, double mean, double rate = 0.1) {
    for (double& value : sum_.values<double>(kAll)) value = 2 * mean;
    rule.update(sum_, UpdateRange::same(kAll), 2, {0, 0, rate});
    return sum_.values<double>(kAll)[0];
  }
  tensor::Arena weights_, sum_;  // the first weight is 1
};

// W0 = 1, means 2 and 3. BMUF with eta = 0.5, zeta = 1: D1 = 1, W1 = 2; D2 = 0.5 + 1 = 1.5, W2 = 3.5.
TEST_F(Outer, BlockMomentumFiltersTheBlocksUpdates) {
  auto rule = make("block", 1, 0.5);
  EXPECT_DOUBLE_EQ(answer(*rule, 2), 2);
  EXPECT_DOUBLE_EQ(answer(*rule, 3), 3.5);
}

TEST_F(Outer, BlockNesterovStartsWhereTheMomentumLeads) {
  auto rule = make("block_nesterov", 1, 0.5);
  EXPECT_DOUBLE_EQ(answer(*rule, 2), 2 + 0.5 * 1);
  // The second block started at 2.5: D2 = 0.5 + 0.5, W2 = 3.
  EXPECT_DOUBLE_EQ(answer(*rule, 3), 3 + 0.5 * 1);
}

/// Where replicas stand still, block momentum runs out.
TEST_F(Outer, BlockMomentumAloneComesToAnEnd) {
  for (const char* name : {"block", "block_nesterov"}) {
    auto rule = make(name, 1, 0.75);
    double at = answer(*rule, 2);
    for (int block = 0; block < 200; ++block) at = answer(*rule, at);
    EXPECT_NEAR(at, 1 + 1 / (1 - 0.75), 1e-9) << name;
  }
}

// Gradients W - mean: -1, then with W1.
TEST_F(Outer, OuterSgdTakesTheFormsOfTheInnerOne) {
  auto momentum = make("outer_momentum", 0.5, 0.5);
  EXPECT_DOUBLE_EQ(answer(*momentum, 2), 1 + 0.5);
  EXPECT_DOUBLE_EQ(answer(*momentum, 3), 1.5 + 0.5 * (0.5 + 1.5));
  auto nesterov = make("outer_nesterov", 0.5, 0.5);
  EXPECT_DOUBLE_EQ(answer(*nesterov, 2), 1 + 0.5 * (1 + 0.5 * 1));
  EXPECT_DOUBLE_EQ(answer(*nesterov, 3), 1.75 + 0.5 * (1.25 + 0.5 * (0.5 * 1 + 1.25)));
}

// u1 = -1/gamma; gamma halves: u2 = 0.5 u1 + (W1 - mean)/gamma'.
TEST_F(Outer, SlowMomentumIsInUnitsOfGradients) {
  auto rule = make("slowmo", 1, 0.5);
  EXPECT_NEAR(answer(*rule, 2, 0.2), 2, 1e-15);
  EXPECT_NEAR(answer(*rule, 3, 0.1), 2 + 0.1 * (0.5 * 5 + 10), 1e-15);
  EXPECT_NEAR(answer(*rule, 3, 0), 3.25, 1e-15);  // nothing moves when the rate is 0
}

TEST_F(Outer, AnElasticMeetingConservesTheSum) {
  const int members = 3;
  auto rule = make("elastic", 0.9, 0, members);
  std::vector<tensor::Arena> replicas;
  for (int m = 0; m < members; ++m) {
    replicas.emplace_back(DType::Float64, kElements);
    auto x = replicas.back().values<double>(kAll);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = m * 1.5 + static_cast<double>(i);
  }
  auto total = [&](std::size_t i) {
    double sum = rule->centre()->values<double>(kAll)[i];
    for (auto& replica : replicas) sum += replica.values<double>(kAll)[i];
    return sum;
  };
  for (int meeting = 0; meeting < 4; ++meeting) {
    std::vector<double> before(kElements);
    for (std::size_t i = 0; i < kElements; ++i) before[i] = total(i);
    auto s = sum_.values<double>(kAll);
    std::fill(s.begin(), s.end(), 0.0);
    for (auto& replica : replicas)
      for (std::size_t i = 0; i < kElements; ++i) s[i] += replica.values<double>(kAll)[i];
    const double centre = rule->centre()->values<double>(kAll)[0];
    rule->update(sum_, UpdateRange::same(kAll), members, {});
    for (auto& replica : replicas) rule->adopt(replica, sum_, UpdateRange::same(kAll));
    EXPECT_NE(rule->centre()->values<double>(kAll)[0], centre);
    for (std::size_t i = 0; i < kElements; ++i) EXPECT_NEAR(total(i), before[i], 1e-12);
  }
}

/// With beta = 1 the centre ends exactly on the replicas' mean.
TEST_F(Outer, ElasticWithBetaOneMeetsInTheMean) {
  auto rule = make("elastic", 1, 0, 2);
  for (double& value : sum_.values<double>(kAll)) value = 7 + 4;
  rule->update(sum_, UpdateRange::same(kAll), 2, {});
  EXPECT_DOUBLE_EQ(rule->centre()->values<double>(kAll)[3], 5.5);
}

// W0 = 1, tau = 4, rate 0.5: W1 = 1 + 0.5 (3 - 1) / 4, W2 = W1 + 0.5 (3.25 - W1) / 4.
TEST_F(Outer, AccumulatedCountsAPeriodsWayAsOneStep) {
  plan::LevelPlan plan;
  plan.rate = 0.5;
  plan.period = 4;
  auto rule = find_outer("accumulated").make(plan, {DType::Float64, kElements, 2, {}});
  rule->begin(weights_, UpdateRange::same(kAll));
  EXPECT_DOUBLE_EQ(answer(*rule, 3), 1.25);
  EXPECT_DOUBLE_EQ(answer(*rule, 3.25), 1.5);
}

/// A sum and all of the state are read and written; an average of one replica is what it handed in.
TEST_F(Outer, EveryRowSaysWhatItTouches) {
  for (const OuterRow& row : outer_table()) {
    auto rule = make(row.name.data(), 0.5, 0.5);
    EXPECT_EQ(rule->update_touches(2), 2 * (1 + row.state_arenas)) << row.name;
    EXPECT_EQ(rule->update_touches(1), row.state_arenas == 0 ? 0 : 2 * (1 + row.state_arenas)) << row.name;
  }
}

TEST_F(Outer, EveryRowKeepsTheStateItDeclares) {
  for (const OuterRow& row : outer_table()) {
    auto rule = make(row.name.data(), 1, 0);
    EXPECT_EQ(rule->state().size(), static_cast<std::size_t>(row.state_arenas)) << row.name;
    EXPECT_EQ(answer(*rule, 1), 1) << row.name;  // replicas that did not move stay
  }
}

}  // namespace
}  // namespace taxon::optim
