// PowerSGD: what low-rank factors say of a gradient.
#include "codec/low_rank.h"

#include <algorithm>
#include <numeric>

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

class PowerSgd : public testing::Test {
 protected:
  static constexpr std::size_t kRows = 60, kColumns = 45, kCount = kRows * kColumns;

  static Coder coder_of(int rank) {
    plan::Options options = options_of();
    options.set("rank", rank);
    return Coder(find_codec("power_sgd"), options, {{{0, kCount}, kColumns}});
  }
  static std::vector<float> of_rank(int rank) {
    std::vector<float> values(kCount);
    for (int k = 0; k < rank; ++k) {
      const std::vector<float> left = gradient(kRows, static_cast<std::uint64_t>(k)),
                               right = gradient(kColumns, static_cast<std::uint64_t>(100 + k));
      for (std::size_t i = 0; i < kCount; ++i) values[i] += left[i / kColumns] * right[i % kColumns];
    }
    return values;
  }
  static double norm(const std::vector<float>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  }
  static double largest_singular_value(const std::vector<float>& matrix) {
    std::vector<double> right(kColumns, 1), left(kRows);
    double value = 0;
    for (int step = 0; step < 200; ++step) {
      for (std::size_t r = 0; r < kRows; ++r)
        left[r] = std::inner_product(right.begin(), right.end(),
                                     matrix.begin() + static_cast<std::ptrdiff_t>(r * kColumns), 0.0);
      std::fill(right.begin(), right.end(), 0.0);
      for (std::size_t i = 0; i < kCount; ++i) right[i % kColumns] += left[i / kColumns] * matrix[i];
      const double length = std::sqrt(std::inner_product(right.begin(), right.end(), right.begin(), 0.0));
      for (double& entry : right) entry /= length;
      value = std::sqrt(length);  // of A^T A it is the square
    }
    return value;
  }
  static std::vector<float> rest_of(Coder& coder, std::vector<float> input) {
    coder.round_trip(input, Residual::Stay);
    coder.codec->settle(coder.last(), input, coder.context);
    return input;
  }
};

TEST_F(PowerSgd, SendsMatricesOfItsRankWhole) {
  for (int rank : {1, 2, 4}) {
    Coder coder = coder_of(rank);
    const std::vector<float> input = of_rank(rank);
    EXPECT_LT(norm(rest_of(coder, input)), 1e-4 * norm(input)) << rank;
    EXPECT_EQ(coder.wires[0].view().size(), static_cast<std::size_t>(rank) * kRows * sizeof(float));
    EXPECT_EQ(coder.wires[1].view().size(), static_cast<std::size_t>(rank) * kColumns * sizeof(float));
  }
}

TEST_F(PowerSgd, SendsWhatIsSmallAsItIs) {
  plan::Options options = options_of();
  options.set("rank", 4);
  const std::size_t count = 16 * 9 + 30;  // factors would not halve the matrix; and a vector
  Coder coder(find_codec("power_sgd"), options, {{{0, 16 * 9}, 9}, {{16 * 9, 30}, 0}});
  std::vector<float> input = gradient(count, 1);
  EXPECT_EQ(coder.round_trip(input, Residual::Stay), input);
  EXPECT_EQ(coder.wires[0].view().size(), count * sizeof(float));
}

/// Steps of the power method: beginning where the last one ended, factors turn to the largest directions.
TEST_F(PowerSgd, ComesNearerWhenTheGradientStays) {
  std::vector<float> input = of_rank(1);
  for (float& value : input) value *= 3;
  const std::vector<float> noise = gradient(kCount, 9);
  for (std::size_t i = 0; i < kCount; ++i) input[i] += noise[i];
  Coder coder = coder_of(1);
  const double first = norm(rest_of(coder, input));
  double last = first;
  for (int step = 0; step < 10; ++step) last = norm(rest_of(coder, input));
  EXPECT_LT(last, 0.999 * first);
  // No matrix of rank 1 is nearer than by the largest singular value (Eckart and Young), which is the power
  // method's limit.
  const double best = std::sqrt(std::pow(norm(input), 2) - std::pow(largest_singular_value(input), 2));
  EXPECT_GE(last, best * 0.9999);
  EXPECT_LE(last, best * 1.0001);
}

/// Residuals are orthogonal to what was sent: nothing is ever added to a gradient.
TEST_F(PowerSgd, NeverMakesMore) {
  for (int rank : {1, 3}) {
    Coder coder = coder_of(rank);
    for (std::uint64_t step = 0; step < 5; ++step) {
      const std::vector<float> input = gradient(kCount, step);
      EXPECT_LE(norm(rest_of(coder, input)), norm(input) * 1.0001);
    }
  }
}

TEST(Orthonormalise, GivesUnitsAtRightAnglesAndZerosForWhatDepends) {
  const std::size_t length = 37;
  std::vector<float> vectors = gradient(4 * length, 3);
  for (std::size_t i = 0; i < length; ++i) vectors[2 * length + i] = vectors[i] * 2 - vectors[length + i];
  orthonormalise(vectors, length, best_isa());
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) {
      const double dot = std::inner_product(vectors.begin() + static_cast<std::ptrdiff_t>(a * length),
                                            vectors.begin() + static_cast<std::ptrdiff_t>((a + 1) * length),
                                            vectors.begin() + static_cast<std::ptrdiff_t>(b * length), 0.0);
      EXPECT_NEAR(dot, a == b && a != 2 ? 1 : 0, 1e-5) << a << " and " << b;
    }
}

}  // namespace
}  // namespace taxon::codec::test
