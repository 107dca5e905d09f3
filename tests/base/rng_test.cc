#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace taxon {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Random123's kat_vectors, rows "philox4x32 10".
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t kOnes = 0xffffffffU;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<std::uint64_t> draw(Rng rng, int count) {
  std::vector<std::uint64_t> values;
  for (int i = 0; i < count; ++i) values.push_back(rng());
  return values;
}

TEST(Rng, IsAFunctionOfSeedPurposeAndIndex) {
  std::vector<std::uint64_t> base = draw(Rng(7, "epoch order", 3), 16);
  EXPECT_EQ(base, draw(Rng(7, "epoch order", 3), 16));
  EXPECT_NE(base, draw(Rng(8, "epoch order", 3), 16));
  EXPECT_NE(base, draw(Rng(7, "dropout", 3), 16));
  EXPECT_NE(base, draw(Rng(7, "epoch order", 4), 16));
  EXPECT_NE(base, draw(Rng(std::uint64_t{7} << 32, "epoch order", 3), 16));
}

// A published run must be repeatable with a later version.
TEST(Rng, StreamsNeverChange) {
  Rng rng(1, "epoch order", 0);
  EXPECT_EQ(rng(), 0x4839c96b6cc2898eU);
  EXPECT_EQ(rng(), 0xcb3fad275fee6f65U);
}

TEST(Rng, NeighbouringStreamsDoNotOverlap) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t index = 0; index < 64; ++index)
    for (std::uint64_t value : draw(Rng(1, "sample", index), 64)) EXPECT_TRUE(seen.insert(value).second);
}

TEST(Rng, SeekContinuesAStoredStream) {
  Rng rng(42, "mixing");
  for (int i = 0; i < 1000; ++i) rng();
  EXPECT_EQ(rng.position(), 1000U);
  Rng later(42, "mixing");
  later.seek(rng.position());
  EXPECT_EQ(draw(rng, 8), draw(later, 8));
}

TEST(Rng, ACopyForks) {
  Rng rng(42, "mixing");
  rng();
  Rng fork = rng;
  EXPECT_EQ(rng(), fork());
}

TEST(Rng, BelowCoversTheIntervalAndNothingElse) {
  Rng rng(3, "below");
  std::array<int, 7> count{};
  for (int i = 0; i < 7000; ++i) {
    std::uint64_t value = rng.below(7);
    ASSERT_LT(value, 7U);
    ++count[value];
  }
  for (int n : count) EXPECT_NEAR(n, 1000, 150);  // 5 standard deviations
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rng.below(1), 0U);
}

TEST(Rng, BelowIsUnbiasedForABoundThatIsNoPowerOfTwo) {
  // With 2^64 mod b close to b/2, taking the remainder would favour the lower half by 5 to 3.
  constexpr std::uint64_t kBound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  Rng rng(5, "below");
  int low = 0;
  for (int i = 0; i < 10000; ++i) low += rng.below(kBound) < kBound / 2;
  EXPECT_NEAR(low, 5000, 250);
}

TEST(Rng, UniformLiesInTheHalfOpenInterval) {
  Rng rng(9, "uniform");
  double sum = 0, squares = 0;
  constexpr int kDraws = 10000;
  for (int i = 0; i < kDraws; ++i) {
    double value = rng.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.02);
}

TEST(Rng, WorksWithTheStandardLibrary) {
  Rng rng(9, "shuffle");
  std::vector<int> values(100);
  for (int i = 0; i < 100; ++i) values[static_cast<std::size_t>(i)] = i;
  std::shuffle(values.begin(), values.end(), rng);
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
}

TEST(RngDeathTest, BelowRefusesAnEmptyInterval) { EXPECT_DEATH(Rng(1, "x").below(0), "bound > 0"); }

}  // namespace
}  // namespace taxon
