#include "codec/sketch.h"

#include <algorithm>

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

/// What estimates are off by, over keys, for values of one magnitude and random signs.
struct Errors {
  double variance = 0;  // over that of a row: |x|^2 / columns
  double slope = 0;     // of estimates over values, less 1
};

Errors errors_of(const SketchShape& shape, std::size_t count, int keys, double noise = 1, double size = 1) {
  std::vector<float> values(count), table(shape.size()), estimates(count);
  Rng rng(3, "signs");
  for (float& value : values) value = rng.below(2) == 0 ? 1.0F : -1.0F;
  Errors errors;
  const double samples = static_cast<double>(count) * keys;
  for (int key = 0; key < keys; ++key) {
    sketch(values, shape, static_cast<std::uint64_t>(key), table, best_isa());
    estimate(table, shape, static_cast<std::uint64_t>(key), estimates, best_isa());
    for (std::size_t i = 0; i < count; ++i) {
      const double error =
          size * (values[i] + noise * (static_cast<double>(estimates[i]) - values[i])) - values[i];
      errors.variance +=
          error * error / samples * static_cast<double>(shape.columns) / static_cast<double>(count);
      errors.slope += error * values[i] / samples;
    }
  }
  return errors;
}

/// A row's estimate is unbiased and has the variance |x|^2 / columns (Charikar et al.); errors are sums of
/// many values, nearly normal, so the median of r rows has the variance of the median of r normal numbers.
/// Buckets are the independent samples: of either figure the deviation is about sqrt(2 / (columns keys)).
testing::AssertionResult are_as_theory_says(const Errors& errors, const SketchShape& shape, int keys) {
  const double median = shape.rows == 1 ? 1 : shape.rows == 3 ? 0.4487 : shape.rows == 5 ? 0.2868 : 0.2104;
  const double noise = std::sqrt(2 / (static_cast<double>(shape.columns) * keys));
  if (std::abs(errors.variance / median - 1) < 5 * noise && std::abs(errors.slope) < 5 * noise)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << shape.rows << " x " << shape.columns << ": variance "
                                     << errors.variance << ", should be " << median << "; slope "
                                     << errors.slope << " +- " << noise;
}

TEST(Sketch, ErrorsHaveTheMeanAndTheVarianceOfTheory) {
  const std::size_t count = 20000;
  for (int rows : {1, 3, 5, 7})
    for (std::size_t columns : {256UL, 1024UL}) {
      const SketchShape shape{rows, columns};
      const int keys = columns == 256 ? 40 : 10;
      EXPECT_TRUE(are_as_theory_says(errors_of(shape, count, keys), shape, keys));
      EXPECT_FALSE(are_as_theory_says(errors_of(shape, count, keys, std::sqrt(2.0)), shape, keys));
      EXPECT_FALSE(are_as_theory_says(errors_of(shape, count, keys, 1, 0.9), shape, keys));
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
    sketch(values, shape, key, table, best_isa());
    estimate(table, shape, key, estimates, best_isa());
    for (std::size_t i : heavy) EXPECT_NEAR(estimates[i], values[i], 2.5F) << i;
  }
}

/// Candidates are the blocks that hold the heavy values, found with an eighth of the estimates.
TEST(Sketch, OfBlocksFindsBlocksOfHeavyHitters) {
  const std::size_t count = 80000;
  plan::Options options = options_of();
  options.set("density", 0.001);
  options.set("columns", 0.03);
  options.set("candidates", 8);
  options.set("neighbours", 8);
  Coder coder(find_codec("count_sketch"), options, count);
  std::vector<float> values = gradient(count, 2);
  for (float& value : values) value *= 0.01F;
  std::vector<std::size_t> heavy;
  for (std::size_t i = 0; i < 60; ++i) heavy.push_back(i * 1291 + i % 3);
  for (std::size_t i : heavy) values[i] = i % 2 ? 10.0F : -10.0F;
  const std::vector<float> sent = coder.round_trip(values, Residual::Stay);
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
    sketch(values, shape, key, table, best_isa());
    ++pairs;
    met +=
        std::none_of(table.begin(), table.end(), [](float bucket) { return std::abs(bucket) == 2; }) ? 1 : 0;
  }
  // 1 in 64, 312 expected, deviation 18.
  EXPECT_NEAR(met, pairs / 64.0, 5 * 18);
}

/// What lies between tensors is in no checkpoint, so nothing there may wait for its turn.
TEST(Sketch, OfSeveralStepsMarksTensorsAlone) {
  plan::Options options = options_of();
  options.set("density", 0.2);
  options.set("candidates", 1);
  options.set("reuse", 4);
  Coder coder(find_codec("count_sketch"), options, {{{0, 40}}, {{100, 60}}, {{300, 100}}});
  std::vector<float> values(coder.count);
  for (const Piece& piece : coder.pieces)
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(piece.range.begin), piece.range.size, 1.0F);
  coder.round_trip(values, Residual::Stay);
  std::size_t marks = 0, between = 0;
  for (std::size_t i = 0; i < coder.count; ++i) {
    const bool lies_in_one = std::any_of(coder.pieces.begin(), coder.pieces.end(), [i](const Piece& piece) {
      return piece.range.begin <= i && i < piece.range.end();
    });
    (lies_in_one ? marks : between) += coder.lasting[i] != 0;
  }
  EXPECT_GT(marks, 0U);
  EXPECT_EQ(between, 0U);
}

}  // namespace
}  // namespace taxon::codec::test
