#include "codec/sketch.h"

#include <algorithm>

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

/// With r rows of c buckets an estimate is off by more than sqrt(3 / c) |x| with a probability that falls
/// exponentially in r (Charikar et al.): a third of them for a row alone.
TEST(Sketch, ErrorsStayWithinTheBound) {
  const std::size_t count = 40000;
  const std::vector<float> values = gradient(count, 1);
  double squares = 0;
  for (float value : values) squares += static_cast<double>(value) * value;
  for (int rows : {1, 3, 5, 7})
    for (std::size_t columns : {256UL, 4096UL}) {
      const SketchShape shape{rows, columns};
      std::vector<float> table(shape.size()), estimates(count);
      sketch(values, shape, 5, table, best_path());
      estimate(table, shape, 5, estimates, best_path());
      const double bound = std::sqrt(3.0 / static_cast<double>(columns) * squares);
      std::size_t beyond = 0;
      double bias = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double error = static_cast<double>(estimates[i]) - values[i];
        bias += error;
        beyond += std::abs(error) > bound ? 1 : 0;
      }
      // Chebyshev gives p <= 1/3 for a row, and most of `rows` must fail together.
      const double p = 1.0 / 3;
      const double fail = rows == 1   ? p
                          : rows == 3 ? 3 * p * p
                          : rows == 5 ? 10 * p * p * p
                                      : 35 * p * p * p * p;
      EXPECT_LE(static_cast<double>(beyond) / static_cast<double>(count), fail) << rows << " x " << columns;
      EXPECT_LT(std::abs(bias / static_cast<double>(count)), 0.2 * bound) << rows << " x " << columns;
    }
}

TEST(Sketch, FindsHeavyHitters) {
  const std::size_t count = 100000;
  std::vector<float> values = gradient(count, 2);
  for (float& value : values) value *= 0.01F;
  std::vector<std::size_t> heavy;
  for (std::size_t i = 0; i < 100; ++i) heavy.push_back(i * 991 + i % 3);
  for (std::size_t i : heavy) values[i] = i % 2 ? 10.0F : -10.0F;
  const SketchShape shape{5, 2048};
  std::vector<float> table(shape.size()), estimates(count);
  for (std::uint64_t key : {1ULL, 2ULL, 3ULL}) {
    sketch(values, shape, key, table, best_path());
    estimate(table, shape, key, estimates, best_path());
    for (std::size_t i : heavy) EXPECT_NEAR(estimates[i], values[i], 2.5F) << i;
  }
}

/// Candidates are the blocks that hold the heavy values, found with an eighth of the estimates.
TEST(Sketch, OfBlocksFindsBlocksOfHeavyHitters) {
  const std::size_t count = 80000;
  plan::CodecPlan plan = plan_of("count_sketch");
  plan.density = 0.001;
  plan.columns = 0.03;
  plan.candidates = 8;
  plan.neighbours = 8;
  Coder coder(find_codec("count_sketch"), plan, count);
  std::vector<float> values = gradient(count, 2);
  for (float& value : values) value *= 0.01F;
  std::vector<std::size_t> heavy;
  for (std::size_t i = 0; i < 60; ++i) heavy.push_back(i * 1291 + i % 3);
  for (std::size_t i : heavy) values[i] = i % 2 ? 10.0F : -10.0F;
  const std::vector<float> sent = coder.round_trip(values, Rest::Stay);
  for (std::size_t i : heavy) EXPECT_EQ(sent[i], values[i]) << i;
}

/// Two values meet in a bucket as often as if each had a hash of its own, in the same block or not.
TEST(Sketch, CollidesAsRarelyAsItShould) {
  const SketchShape shape{1, 64};
  std::vector<float> values(64), table(shape.size());
  int met = 0, pairs = 0;
  for (std::uint64_t key = 0; key < 20000; ++key) {
    std::fill(values.begin(), values.end(), 0.0F);
    const std::size_t a = key % 16, b = 16 + key / 16 % 48;
    values[a] = 1;
    values[b] = 2;
    sketch(values, shape, key, table, best_path());
    ++pairs;
    met +=
        std::none_of(table.begin(), table.end(), [](float bucket) { return std::abs(bucket) == 2; }) ? 1 : 0;
  }
  // 1 in 64, 312 expected, deviation 18.
  EXPECT_NEAR(met, pairs / 64.0, 5 * 18);
}

}  // namespace
}  // namespace taxon::codec::test
