#include "tensor/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace taxon::tensor {
namespace {

/// By every path that this machine has, which agree.
template <class T>
bool is_finite(DType type, const std::vector<T>& values) {
  const ConstView bytes = as_const_view(std::span<const T>(values));
  const bool finite = all_finite(type, bytes);
  for (Isa path : isa_paths()) EXPECT_EQ(all_finite(type, bytes, path), finite) << name_of(path);
  return finite;
}

template <class T>
void expect_every_place_to_be_seen(DType type) {
  using Limits = std::numeric_limits<T>;
  for (std::size_t size : {0, 1, 7, 1023, 1024, 1025, 5000, 40000}) {
    std::vector<T> values(size, Limits::max());
    for (std::size_t i = 0; i < size; i += 3)
      values[i] = i % 2 == 0 ? Limits::denorm_min() : -Limits::lowest();
    EXPECT_TRUE(is_finite(type, values)) << size;
    for (std::size_t at = 0; at < size; at += 1 + size / 50)
      for (T bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::signaling_NaN()}) {
        std::vector<T> damaged = values;
        damaged[at] = bad;
        EXPECT_FALSE(is_finite(type, damaged)) << size << " " << at;
      }
  }
}

TEST(AllFinite, SeesEveryPlace) {
  expect_every_place_to_be_seen<float>(DType::Float32);
  expect_every_place_to_be_seen<double>(DType::Float64);
}

TEST(AllFinite, KnowsHalfAFloatAndWholeNumbers) {
  std::vector<BFloat16> values(2000, BFloat16(3e38F));
  EXPECT_TRUE(is_finite(DType::BFloat16, values));
  values[1999] = BFloat16(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(is_finite(DType::BFloat16, values));
  EXPECT_TRUE(is_finite(DType::Int32, std::vector<std::int32_t>(10, -1)));
  EXPECT_TRUE(is_finite(DType::UInt8, std::vector<std::uint8_t>(10, 0xff)));
}

}  // namespace
}  // namespace taxon::tensor
