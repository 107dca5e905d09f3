#include "optim/rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace taxon::optim {
namespace {

using tensor::Arena;

constexpr std::size_t kSize = 653;  // several runs of a kernel that takes its arrays in such, and a rest
const std::vector<Range> kDecayed = {{3, 10}, {20, 1}, {40, kSize - 40}};

const RuleRow& row(const std::string& name) {
  for (const RuleRow& r : rule_table())
    if (r.name == name) return r;
  throw std::out_of_range(name);
}

bool decays(std::size_t i) {
  for (const Range& range : kDecayed)
    if (i >= range.begin && i < range.end()) return true;
  return false;
}

template <class T>
void fill(const Arena& arena, std::uint64_t index) {
  Rng rng(5, "rule test", index);
  for (T& value : arena.values<T>({0, kSize})) value = static_cast<T>(rng.uniform() * 2 - 1);
}

/// One element as PyTorch's documentation writes its SGD, Adagrad and AdamW, in float64.
struct Reference {
  static constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;  // PyTorch's defaults, and ours
  double weight, velocity = 0, first = 0, second = 0;
  void step(const plan::OptimiserPlan& plan, double gradient, double rate, bool decayed, std::int64_t t) {
    double decay = decayed ? plan.weight_decay : 0;
    if (plan.rule == "adamw") {
      weight -= rate * decay * weight;
      first = kBeta1 * first + (1 - kBeta1) * gradient;
      second = kBeta2 * second + (1 - kBeta2) * gradient * gradient;
      double m = first / (1 - std::pow(kBeta1, t)), v = second / (1 - std::pow(kBeta2, t));
      weight -= rate * m / (std::sqrt(v) + kEpsilon);
      return;
    }
    if (plan.rule == "sign") {
      weight -= rate * ((gradient > 0 ? 1 : gradient < 0 ? -1 : 0) + decay * weight);
      return;
    }
    gradient += decay * weight;
    if (plan.rule == "adagrad") {
      second += gradient * gradient;
      weight -= rate * gradient / (std::sqrt(second) + 1e-10);
      return;
    }
    if (plan.rule == "sgd") {
      weight -= rate * gradient;
      return;
    }
    velocity = plan.momentum * velocity + gradient;
    weight -= rate * (plan.rule == "nesterov" ? gradient + plan.momentum * velocity : velocity);
  }
};

template <class T>
double largest_error(const std::string& name, DType type, std::vector<Range> order) {
  plan::OptimiserPlan plan;
  plan.rule = name;
  plan.weight_decay = 0.1;
  auto rule = row(name).make(plan, {type, kSize, kDecayed});
  Arena weights(type, kSize), sum(type, kSize);
  fill<T>(weights, 0);
  std::vector<Reference> expected;
  for (T value : weights.values<T>({0, kSize})) expected.push_back({static_cast<double>(value)});
  for (std::int64_t step = 0; step < 7; ++step) {
    fill<T>(sum, static_cast<std::uint64_t>(step) + 1);
    StepClock clock{step, step * 10, 0.05 + 0.01 * static_cast<double>(step), 0.5};
    for (Range range : order) rule->update(weights, sum, UpdateRange::same(range), clock);
    auto gradients = sum.values<T>({0, kSize});
    for (std::size_t i = 0; i < kSize; ++i)
      expected[i].step(plan, static_cast<double>(gradients[i]) * clock.gradient_scale, clock.rate, decays(i),
                       step + 1);
  }
  double worst = 0;
  auto got = weights.values<T>({0, kSize});
  for (std::size_t i = 0; i < kSize; ++i)
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i].weight));
  return worst;
}

class Rules : public ::testing::TestWithParam<std::string> {};

TEST_P(Rules, FollowTheReferenceInBothPrecisions) {
  EXPECT_LT(largest_error<double>(GetParam(), DType::Float64, {{0, kSize}}), 1e-13);
  EXPECT_LT(largest_error<float>(GetParam(), DType::Float32, {{0, kSize}}), 3e-6);
}

/// Pieces in any order, by any instructions, give the same bits.
template <class T>
void expect_the_same_bits(const std::string& name, DType type, const plan::OptimiserPlan& plan) {
  auto run = [&](std::vector<Range> order, Isa path = Isa::Portable) {
    RuleContext context{type, kSize, kDecayed};
    context.isa = path;
    auto rule = row(name).make(plan, context);
    Arena weights(type, kSize), sum(type, kSize);
    fill<T>(weights, 0);
    for (std::int64_t step = 0; step < 4; ++step) {
      fill<T>(sum, static_cast<std::uint64_t>(step) + 1);
      for (Range range : order) rule->update(weights, sum, UpdateRange::same(range), {step, 0, 0.1, 1});
    }
    auto values = weights.values<T>({0, kSize});
    return std::vector<T>(values.begin(), values.end());
  };
  auto whole = run({{0, kSize}});
  for (Isa path : isa_paths()) {
    EXPECT_EQ(whole, run({{0, kSize}}, path)) << name_of(path);
    EXPECT_EQ(whole, run({{32, kSize - 32}, {0, 5}, {5, 27}}, path)) << name_of(path);
  }
  EXPECT_NE(whole, run({{0, kSize - 1}}));
}

TEST_P(Rules, PiecesInAnyOrderByAnyInstructionsGiveTheSameBits) {
  plan::OptimiserPlan plan;
  plan.weight_decay = 0.1;
  expect_the_same_bits<float>(GetParam(), DType::Float32, plan);
  expect_the_same_bits<double>(GetParam(), DType::Float64, plan);
}

TEST_P(Rules, ShowTheirWholeState) {
  plan::OptimiserPlan plan;
  auto rule = row(GetParam()).make(plan, {DType::Float32, kSize, {}});
  auto state = rule->state();
  EXPECT_EQ(static_cast<int>(state.size()), row(GetParam()).state_arenas);
  // A rule that continues from a copy of the state gives the same bits.
  auto copy = row(GetParam()).make(plan, {DType::Float32, kSize, {}});
  Arena weights(DType::Float32, kSize), twin(DType::Float32, kSize), sum(DType::Float32, kSize);
  fill<float>(sum, 1);
  rule->update(weights, sum, UpdateRange::same({0, kSize}), {0, 0, 0.1, 1});
  std::ranges::copy(weights.values<float>({0, kSize}), twin.values<float>({0, kSize}).begin());
  auto copied = copy->state();
  for (std::size_t s = 0; s < state.size(); ++s)
    std::ranges::copy(state[s].second->values<float>({0, kSize}),
                      copied[s].second->values<float>({0, kSize}).begin());
  rule->update(weights, sum, UpdateRange::same({0, kSize}), {1, 0, 0.1, 1});
  copy->update(twin, sum, UpdateRange::same({0, kSize}), {1, 0, 0.1, 1});
  EXPECT_TRUE(std::ranges::equal(weights.values<float>({0, kSize}), twin.values<float>({0, kSize})));
}

INSTANTIATE_TEST_SUITE_P(Table, Rules,
                         ::testing::Values("sgd", "sign", "momentum", "nesterov", "adamw", "adagrad"));

/// A bias correction counts from there, in that run of the state alone.
TEST(AdamW, BeginsAnewWhereItsStateIsZero) {
  plan::OptimiserPlan plan;
  plan.rule = "adamw";
  const Range anew{16, 20};
  auto run = [&](std::int64_t from, bool told) {
    auto rule = row("adamw").make(plan, {DType::Float64, kSize, {}});
    if (told) rule->set_zero_at(anew, from);
    Arena weights(DType::Float64, kSize), sum(DType::Float64, kSize);
    for (std::int64_t step = 0; step < 3; ++step) {
      fill<double>(sum, static_cast<std::uint64_t>(step) + 1);
      for (Range range : {Range{0, 16}, anew, Range{36, kSize - 36}})
        rule->update(weights, sum, UpdateRange::same(range), {from + step, 0, 0.1, 1});
    }
    auto values = weights.values<double>({0, kSize});
    return std::vector<double>(values.begin(), values.end());
  };
  const auto fresh = run(0, false), late = run(1000, false), told = run(1000, true);
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_EQ(told[i], anew.begin <= i && i < anew.end() ? fresh[i] : late[i]) << i;
  EXPECT_NE(fresh[20], late[20]);
}

TEST(FrozenAdamW, GivesTheSameBitsByAnyInstructions) {
  plan::OptimiserPlan plan;
  plan.weight_decay = 0.1;
  plan.options = {{"freeze_steps", 2}};
  expect_the_same_bits<float>("adamw", DType::Float32, plan);
  expect_the_same_bits<double>("adamw", DType::Float64, plan);
}

/// Members hand in what adds up to the first moment, as if one had had all gradients.
TEST(FrozenAdamW, FollowsTheReferenceFromWhatMembersHandIn) {
  plan::OptimiserPlan plan;
  plan.rule = "adamw";
  plan.weight_decay = 0.1;
  plan.options = {{"freeze_steps", 3}};
  auto rule = row("adamw").make(plan, {DType::Float64, kSize, kDecayed});
  Arena weights(DType::Float64, kSize), sum(DType::Float64, kSize);
  fill<double>(weights, 0);
  std::vector<Reference> expected;
  for (double value : weights.values<double>({0, kSize})) expected.push_back({value});
  std::vector<double> variance(kSize);
  for (std::int64_t step = 0; step < 8; ++step) {
    const StepClock clock{step, 0, 0.05};
    EXPECT_EQ(rule->contributes(clock), step >= 3);
    const bool frozen = rule->contributes(clock);
    std::vector<double> gradient(kSize), handed_in(kSize);
    for (int member = 0; member < 4; ++member) {
      fill<double>(sum, static_cast<std::uint64_t>(10 * step + member));
      auto mine = sum.values<double>({0, kSize});
      for (std::size_t i = 0; i < kSize; ++i) gradient[i] += mine[i];
      if (frozen) rule->contribute(sum, UpdateRange::same({0, kSize}), 0.25);
      for (std::size_t i = 0; i < kSize; ++i) handed_in[i] += mine[i];
    }
    std::ranges::copy(handed_in, sum.values<double>({0, kSize}).begin());
    rule->update(weights, sum, UpdateRange::same({0, kSize}), clock);
    for (std::size_t i = 0; i < kSize; ++i) {
      Reference& r = expected[i];
      if (!frozen) {
        r.step(plan, gradient[i], clock.rate, decays(i), step + 1);
        variance[i] = r.second / (1 - std::pow(Reference::kBeta2, step + 1));
        continue;
      }
      r.first = Reference::kBeta1 * r.first + (1 - Reference::kBeta1) * gradient[i];
      r.weight -= clock.rate * (decays(i) ? plan.weight_decay : 0) * r.weight;
      r.weight -= clock.rate * r.first / (1 - std::pow(Reference::kBeta1, step + 1)) /
                  (std::sqrt(variance[i]) + Reference::kEpsilon);
    }
  }
  auto got = weights.values<double>({0, kSize});
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(got[i], expected[i].weight, 1e-12) << i;
}

TEST(SquaredNorm, IsTheSumAndDoesNotDependOnWhoAsks) {
  Arena values(DType::Float32, 100'000);
  double expected = 0;
  Rng rng(1, "norm");
  for (float& value : values.values<float>({0, 100'000})) {
    value = static_cast<float>(rng.uniform() - 0.5);
    expected += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(squared_norm(values, {0, 100'000}), expected, 1e-9 * expected);
  EXPECT_EQ(squared_norm(values, {0, 0}), 0);
  EXPECT_EQ(squared_norm(values, {7, 33'333}), squared_norm(values, {7, 33'333}));
}

}  // namespace
}  // namespace taxon::optim
