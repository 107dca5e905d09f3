#include "comm/sum.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "comm/cases.h"

namespace taxon::test {
namespace {

/// What sum_into promises, one element at a time.
template <class T>
T scalar_sum(const std::vector<std::vector<T>>& sources, std::size_t index) {
  using Sum = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;
  auto sum = static_cast<Sum>(sources[0][index]);
  for (std::size_t s = 1; s < sources.size(); ++s) sum += static_cast<Sum>(sources[s][index]);
  return static_cast<T>(sum);
}

template <class T>
std::vector<std::vector<T>> random_sources(std::size_t count, std::size_t length) {
  std::vector<std::vector<T>> sources(count, std::vector<T>(length));
  for (std::size_t s = 0; s < count; ++s)
    for (std::size_t i = 0; i < length; ++i)
      sources[s][i] = rounded<T>(value_of(Values::Random, static_cast<int>(s), i));
  return sources;
}

template <class T>
class SumTest : public testing::Test {
 protected:
  static DType type() {
    return std::is_same_v<T, BFloat16> ? DType::BFloat16 : (sizeof(T) == 8 ? DType::Float64 : DType::Float32);
  }
  static View view(std::vector<T>& values) { return as_view(std::span<T>(values)); }
};
using Types = testing::Types<float, double, BFloat16>;
TYPED_TEST_SUITE(SumTest, Types);

TYPED_TEST(SumTest, IntoOneTargetEqualsTheScalarSumBitByBit) {
  using T = TypeParam;
  for (std::size_t count = 1; count <= 20; ++count)
    for (std::size_t length : {0, 1, 3, 15, 16, 33, 1023, 1024, 1025, 2500}) {
      auto sources = random_sources<T>(count, length);
      std::vector<T> target(length);
      std::vector<ConstView> views;
      for (auto& source : sources) views.push_back(this->view(source));
      comm::sum_into(this->type(), this->view(target), views);
      for (std::size_t i = 0; i < length; ++i) {
        T expected = scalar_sum(sources, i);
        ASSERT_EQ(std::memcmp(&target[i], &expected, sizeof(T)), 0)
            << count << " sources of " << length << ", element " << i;
      }
    }
}

TYPED_TEST(SumTest, TheTargetMayBeASource) {
  using T = TypeParam;
  for (std::size_t count = 2; count <= 6; ++count) {
    auto sources = random_sources<T>(count, 3000);
    auto original = sources;
    std::vector<ConstView> views;
    for (auto& source : sources) views.push_back(this->view(source));
    comm::sum_into(this->type(), this->view(sources[1]), views);
    for (std::size_t i = 0; i < 3000; ++i) {
      T expected = scalar_sum(original, i);
      ASSERT_EQ(std::memcmp(&sources[1][i], &expected, sizeof(T)), 0) << count << " sources, element " << i;
    }
  }
}

TYPED_TEST(SumTest, EverywhereGivesAllTheSameSum) {
  using T = TypeParam;
  for (std::size_t count = 1; count <= 20; ++count) {
    auto sources = random_sources<T>(count, 2100);
    auto original = sources;
    std::vector<View> views;
    // From the second element on, so that nothing is aligned to more than its type.
    for (auto& source : sources) views.push_back(this->view(source).slice(sizeof(T), 2099 * sizeof(T)));
    comm::sum_everywhere(this->type(), views);
    for (std::size_t s = 0; s < count; ++s)
      for (std::size_t i = 0; i < 2100; ++i) {
        T expected = i == 0 ? original[s][0] : scalar_sum(original, i);
        ASSERT_EQ(std::memcmp(&sources[s][i], &expected, sizeof(T)), 0)
            << count << " members, member " << s << ", element " << i;
      }
  }
}

TEST(BFloat16SumTest, KeepsNotANumberAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::bit_cast<float>(0x7f800001U);
  std::vector<BFloat16> a(64, BFloat16(infinity)), b(64, BFloat16(1.0F)), target(64);
  a[3].bits = 0x7f81;  // a signalling NaN whose rounding up would overflow
  b[5] = BFloat16(-infinity);
  a[7].bits = 0x7f7f;  // the largest number, twice: infinity
  b[7].bits = 0x7f7f;
  a[9] = BFloat16(nan);
  std::vector<ConstView> views{as_view(std::span(a)), as_view(std::span(b))};
  comm::sum_into(DType::BFloat16, as_view(std::span(target)), views);
  for (std::size_t i : {3, 5, 9}) EXPECT_TRUE(std::isnan(static_cast<float>(target[i]))) << i;
  for (std::size_t i : {0, 1, 7, 63}) EXPECT_EQ(static_cast<float>(target[i]), infinity) << i;
}

TEST(BFloat16SumTest, RoundsOnceAtTheEnd) {
  // 1 + 2^-9 rounds back to 1 in bfloat16; four of them together reach the next number.
  std::vector<std::vector<BFloat16>> sources(5, std::vector<BFloat16>(40, BFloat16(0x1p-9F)));
  sources[0].assign(40, BFloat16(1.0F));
  std::vector<ConstView> views;
  for (auto& source : sources) views.push_back(as_view(std::span(source)));
  std::vector<BFloat16> target(40);
  comm::sum_into(DType::BFloat16, as_view(std::span(target)), views);
  for (BFloat16 value : target) EXPECT_EQ(static_cast<float>(value), 1.0F + 0x1p-7F);
}

TEST(SumDeathTest, RefusesTypesThatAreNotFloating) {
  std::vector<std::int32_t> values(4);
  std::vector<ConstView> views{as_view(std::span(values))};
  EXPECT_DEATH(comm::sum_into(DType::Int32, as_view(std::span(values)), views), "int32");
}

}  // namespace
}  // namespace taxon::test
