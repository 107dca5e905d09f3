#include "codec/fold.h"

#include "codec/cases.h"

namespace taxon::codec::test {
namespace {

std::vector<float> folded(const std::vector<float>& values, std::size_t neighbours, std::uint64_t key,
                          Isa path = best_isa()) {
  std::vector<float> sums(folded_size(values.size(), neighbours), 123.0F);
  fold(values, neighbours, key, sums, path);
  return sums;
}

constexpr std::size_t kNeighbours[] = {1, 2, 8, 64};
constexpr std::size_t kFolded[] = {0, 1, 63, 64, 65, 1000};

TEST(Fold, GivesTheSameBitsOnEveryPath) {
  for (std::size_t neighbours : kNeighbours)
    for (std::size_t count : kFolded) {
      const std::vector<float> values = gradient(count, count);
      const auto expected = bits_of(folded(values, neighbours, 5, Isa::Portable));
      for (Isa path : isa_paths()) EXPECT_EQ(bits_of(folded(values, neighbours, 5, path)), expected);
    }
}

TEST(Fold, IsLinear) {
  for (std::size_t neighbours : kNeighbours)
    for (std::size_t count : kFolded) {
      const std::vector<float> a = whole_numbers(count, 1), b = whole_numbers(count, 2);
      std::vector<float> both(count);
      for (std::size_t i = 0; i < count; ++i) both[i] = a[i] + b[i];
      const auto of_a = folded(a, neighbours, 7), of_b = folded(b, neighbours, 7);
      const auto of_both = folded(both, neighbours, 7);
      for (std::size_t i = 0; i < of_both.size(); ++i) EXPECT_EQ(of_both[i], of_a[i] + of_b[i]);
    }
}

/// A sum has its neighbours and no other's: its square is their energy, in the mean over the keys.
TEST(Fold, SquaresAreEnergiesOfNeighbours) {
  const std::size_t neighbours = 8, count = 200;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(1 + i / neighbours);
  const int keys = 4000;
  std::vector<double> squares(count / neighbours);
  for (int key = 0; key < keys; ++key) {
    const std::vector<float> sums = folded(values, neighbours, static_cast<std::uint64_t>(key));
    for (std::size_t i = 0; i < sums.size(); ++i) squares[i] += std::pow(sums[i], 2) / keys;
  }
  // A square of n random signs has the deviation sqrt(2 (1 - 1/n)), over its mean.
  const double deviation = std::sqrt(2 * (1 - 1.0 / neighbours) / keys);
  double all = 0;
  for (std::size_t i = 0; i < squares.size(); ++i) {
    const double energy = neighbours * std::pow(1.0 + static_cast<double>(i), 2);
    EXPECT_NEAR(squares[i] / energy, 1, 5 * deviation) << i;
    all += squares[i] / energy / static_cast<double>(squares.size());
  }
  EXPECT_NEAR(all, 1, 5 * deviation / std::sqrt(static_cast<double>(squares.size())));
}

}  // namespace
}  // namespace taxon::codec::test
