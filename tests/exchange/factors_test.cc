// Sufficient factors: the rule that chooses them, what is recorded, and the sum that they become.
#include "exchange/compression/factors.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "codec/outer_products.h"
#include "exchange/levels/algorithm_selection.h"

namespace taxon::exchange {
namespace {

plan::Plan plan_with(const std::string& factors, std::int64_t batch = 128) {
  plan::Plan plan;
  plan.batch.global = batch;
  plan.exchange.levels[0].factors = plan::choice_from<plan::FactorUse>(factors).value();
  return plan;
}

std::vector<Tensor> tensors() {
  return {{"fc2.bias", {10}, 1},
          {"fc2.weight", {10, 1024}, 1, true},
          {"fc1.bias", {1024}, 0},
          {"fc1.weight", {1024, 3136}, 0, true},
          {"conv.weight", {64, 32, 3, 3}, 0}};
}

plan::Plan resolved(plan::Plan plan, int ranks) {
  const FactorGroup group{ranks, ranks};
  const LevelShape shapes[] = {{ranks, false}};
  std::vector<Tensor> all = tensors();
  choose_factors(all, plan, group);
  plan.resolved.buckets = cut_buckets(all, plan);
  size_factors(plan, all, group);
  resolve_exchange(plan, shapes);
  explain_factors(plan, all, group);
  return plan;
}

std::vector<std::string> as_factors(const plan::Plan& plan) {
  std::vector<std::string> names;
  for (const plan::BucketPlan& bucket : plan.resolved.buckets)
    if (bucket.factors > 0) names.push_back(bucket.parameters.at(0));
  return names;
}

TEST(FactorCase, PaysWhereFewerNumbersTravel) {
  // K (P - 1) (M + N) against 2 (P - 1) / P M N: with M = N = 64 and P = 4 they meet at K = 16.
  EXPECT_TRUE((FactorCase{64, 64, 15, 4}.pays()));
  EXPECT_FALSE((FactorCase{64, 64, 16, 4}.pays()));
  EXPECT_EQ((FactorCase{64, 64, 16, 4}.as_factors()), (FactorCase{64, 64, 16, 4}.as_sum()));
  EXPECT_FALSE((FactorCase{64, 64, 17, 4}.pays()));
  EXPECT_FALSE((FactorCase{64, 64, 1, 1}.pays()));  // nobody to send to
}

TEST(Factors, TheRuleDecidesLayerByLayerAndSaysWhy) {
  const plan::Plan plan = resolved(plan_with("auto"), 4);
  EXPECT_EQ(as_factors(plan), std::vector<std::string>{"fc1.weight"});
  std::vector<std::string> reasons;
  for (const plan::BucketPlan& bucket : plan.resolved.buckets)
    reasons.insert(reasons.end(), bucket.reasons.begin(), bucket.reasons.end());
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_TRUE(reasons[0].starts_with("dense: fc2.weight, ")) << reasons[0];
  EXPECT_TRUE(reasons[1].starts_with("factors: fc1.weight, 32 samples x (1024 + 3136) to 3 others: "))
      << reasons[1];
  EXPECT_NE(describe_factors(plan).find("fc1.weight"), std::string::npos);
}

TEST(Factors, AlwaysAndNoneAreObeyed) {
  EXPECT_EQ(as_factors(resolved(plan_with("always"), 4)),
            (std::vector<std::string>{"fc2.weight", "fc1.weight"}));
  const plan::Plan none = resolved(plan_with("none"), 4);
  EXPECT_TRUE(as_factors(none).empty());
  EXPECT_EQ(describe_factors(none), "");
  for (const plan::BucketPlan& bucket : none.resolved.buckets) EXPECT_TRUE(bucket.reasons.empty());
}

TEST(Factors, EachIsABucketOfItsOwnWhateverItsSize) {
  plan::Plan plan = plan_with("always");
  plan.exchange.slice_bytes = 1 << 16;
  const plan::Plan cut = resolved(plan, 4);
  for (const plan::BucketPlan& bucket : cut.resolved.buckets) {
    if (bucket.factors == 0) continue;
    EXPECT_EQ(bucket.parameters.size(), 1u);
    EXPECT_EQ(bucket.parts, 1);
    EXPECT_EQ(bucket.collectives.at(0), "all_reduce factors");
    EXPECT_EQ(rows_of(bucket, cut.exchange.levels)[0].reduce, nullptr);
  }
}

TEST(Factors, BytesSentAreTheClosedForm) {
  const plan::Plan plan = resolved(plan_with("auto"), 4);
  const LevelShape shapes[] = {{4, false}};
  double sent = 0;
  for (const plan::BucketPlan& bucket : plan.resolved.buckets)
    sent += bucket.factors > 0 ? bytes_sent(bucket, plan.exchange.levels, {.shapes = shapes}) : 0;
  EXPECT_EQ(sent, 4.0 * 32 * (1024 + 3136) * 3);
}

TEST(Factors, ARunThatResumesKeepsThemInItsNewSize) {
  plan::Plan plan = resolved(plan_with("auto"), 4);
  const FactorGroup pair{2, 2};
  size_factors(plan, tensors(), pair);
  EXPECT_EQ(as_factors(plan), std::vector<std::string>{"fc1.weight"});
  std::int64_t bytes = 0;
  for (const plan::BucketPlan& bucket : plan.resolved.buckets) bytes += bucket.factors;
  EXPECT_EQ(bytes, 4 * 64 * (1024 + 3136));
  plan.exchange.levels[0].factors = plan::FactorUse::None;
  size_factors(plan, tensors(), pair);
  EXPECT_TRUE(as_factors(plan).empty());
}

TEST(Factors, MembersBlocksLieOneAfterTheOther) {
  const plan::Plan plan = resolved(plan_with("always"), 3);
  Layout layout = lay_out(tensors(), plan.resolved.buckets, DType::Float32);
  lay_out_factors(layout, plan.resolved.buckets, 3, 1);
  std::size_t places = 0;
  for (const Bucket& bucket : layout.buckets) {
    const SufficientFactors& factors = bucket.factors;
    if (factors.rows == 0) continue;
    EXPECT_EQ(factors.rows, 43u);  // of 128 samples at three ranks
    EXPECT_EQ(factors.all.size, 3 * factors.block());
    EXPECT_EQ(factors.own.begin, factors.all.begin + factors.block());
    EXPECT_GE(factors.all.begin, places);
    places = factors.all.end();
  }
  EXPECT_GE(layout.factors, places);
  EXPECT_GT(places, 0u);
}

template <class T>
void expect_products(codec::OuterShape shape) {
  Rng rng(7, "factors");
  std::vector<T> factors(shape.blocks * shape.block());
  for (T& value : factors) value = static_cast<T>(2 * rng.uniform() - 1);
  std::vector<T> expected(shape.outputs * shape.inputs, 0);
  for (std::size_t b = 0; b < shape.blocks; ++b)
    for (std::size_t k = 0; k < shape.rows; ++k)
      for (std::size_t m = 0; m < shape.outputs; ++m)
        for (std::size_t n = 0; n < shape.inputs; ++n) {
          const T* block = factors.data() + b * shape.block();
          const T product =
              block[k * shape.outputs + m] * block[shape.rows * shape.outputs + k * shape.inputs + n];
          expected[m * shape.inputs + n] += product;
        }
  std::vector<T> first;
  for (Isa path : isa_paths())
    for (std::size_t step : {shape.inputs, std::size_t{24}}) {
      std::vector<T> sum(expected.size(), T{99});
      for (std::size_t begin = 0; begin < shape.inputs; begin += step)
        codec::sum_outer_products(std::span<const T>(factors), shape,
                                  {begin, std::min(step, shape.inputs - begin)}, std::span<T>(sum), path);
      for (std::size_t i = 0; i < sum.size(); ++i)
        ASSERT_NEAR(sum[i], expected[i], sizeof(T) == 8 ? 1e-13 : 1e-5) << name_of(path) << " " << i;
      if (first.empty()) first = sum;
      EXPECT_EQ(sum, first) << name_of(path) << " in steps of " << step;
    }
}

TEST(OuterProducts, AreTheSumWithOneSetOfBits) {
  for (const codec::OuterShape& shape :
       {codec::OuterShape{1, 1, 1, 1}, codec::OuterShape{3, 5, 13, 71}, codec::OuterShape{2, 4, 6, 64},
        codec::OuterShape{4, 0, 3, 20}, codec::OuterShape{2, 9, 20, 7}}) {
    expect_products<float>(shape);
    expect_products<double>(shape);
  }
}

}  // namespace
}  // namespace taxon::exchange
