#include "base/view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace taxon {
namespace {

TEST(Part, CoversEverythingOnceInOrder) {
  for (std::size_t size : {0, 1, 2, 3, 7, 8, 9, 64, 97}) {
    for (std::size_t parts : {1, 2, 3, 4, 5, 8, 9, 100}) {
      Range whole{11, size};
      std::size_t next = whole.begin, longest = 0, shortest = size;
      for (std::size_t i = 0; i < parts; ++i) {
        Range piece = part(whole, parts, i);
        EXPECT_EQ(piece.begin, next);
        next = piece.end();
        longest = std::max(longest, piece.size), shortest = std::min(shortest, piece.size);
      }
      EXPECT_EQ(next, whole.end()) << size << " in " << parts;
      EXPECT_LE(longest - shortest, 1U);
    }
  }
}

TEST(View, SlicesRealMemory) {
  std::vector<float> values{0, 1, 2, 3, 4};
  View view = as_view(std::span<float>(values));
  EXPECT_EQ(view.size(), 20U);
  EXPECT_FALSE(view.is_phantom());
  std::span<float> middle = as_span<float>(view.slice(4, 8));
  ASSERT_EQ(middle.size(), 2U);
  middle[0] = 10;
  EXPECT_EQ(values[1], 10);
  ConstView read_only = view;
  EXPECT_EQ(as_span<float>(read_only.slice(4, 4))[0], 10);
  EXPECT_TRUE(view.slice(20, 0).empty());
}

TEST(View, PhantomsHaveASizeAndNoMemory) {
  View phantom = View::phantom(1 << 20);
  EXPECT_TRUE(phantom.is_phantom());
  View piece = phantom.slice(100, 1000);
  EXPECT_TRUE(piece.is_phantom());
  EXPECT_EQ(piece.size(), 1000U);
  EXPECT_EQ(piece.data(), nullptr);
  ConstView read_only = phantom;
  EXPECT_TRUE(read_only.is_phantom());
  EXPECT_FALSE(View().is_phantom());
}

TEST(ViewDeathTest, RefusesWhatLiesOutside) {
  std::vector<std::byte> bytes(10);
  View view(bytes.data(), bytes.size());
  EXPECT_DEATH(view.slice(8, 3), "offset=8 size=3 of 10");
  EXPECT_DEATH(view.slice(11, 0), "offset=11");
  EXPECT_DEATH(view.slice(1, ~std::size_t{0}), "broken invariant");  // offset + size overflows
  EXPECT_DEATH(as_span<float>(view), "size=10");
  EXPECT_DEATH(as_span<float>(View::phantom(8)), "phantom");
}

std::uint16_t bits(float value) { return BFloat16(value).bits; }
float from_bits(std::uint32_t word) { return std::bit_cast<float>(word); }

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(bits(1.0F), 0x3f80);
  EXPECT_EQ(bits(-2.0F), 0xc000);
  EXPECT_EQ(bits(from_bits(0x3f800001)), 0x3f80);  // below the half: down
  EXPECT_EQ(bits(from_bits(0x3f808000)), 0x3f80);  // half, even below: down
  EXPECT_EQ(bits(from_bits(0x3f818000)), 0x3f82);  // half, odd below: up
  EXPECT_EQ(bits(from_bits(0x3f808001)), 0x3f81);  // above the half: up
  EXPECT_EQ(bits(from_bits(0x3fffffff)), 0x4000);  // carries into the exponent
  EXPECT_EQ(bits(0.0F), 0x0000);
  EXPECT_EQ(bits(-0.0F), 0x8000);
}

TEST(BFloat16, KeepsInfinitiesAndNaNs) {
  float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(BFloat16(infinity)), infinity);
  EXPECT_EQ(static_cast<float>(BFloat16(-infinity)), -infinity);
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(from_bits(0x7f800001)))));  // its payload is cut off
}

TEST(BFloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t word = 0; word <= 0xffff; ++word) {
    BFloat16 value;
    value.bits = static_cast<std::uint16_t>(word);
    float wide = static_cast<float>(value);
    if (std::isnan(wide)) continue;
    ASSERT_EQ(BFloat16(wide).bits, word);
  }
}

TEST(DType, SizesAndNamesBelongTogether) {
  EXPECT_EQ(size_of(DType::Float32), sizeof(float));
  EXPECT_EQ(size_of(DType::Float64), sizeof(double));
  EXPECT_EQ(size_of(DType::BFloat16), sizeof(BFloat16));
  EXPECT_EQ(size_of(DType::Int32), 4U);
  EXPECT_EQ(size_of(DType::Int64), 8U);
  EXPECT_EQ(size_of(DType::UInt8), 1U);
  EXPECT_EQ(to_string(DType::BFloat16), "bfloat16");
  EXPECT_EQ(to_string(DType::UInt8), "uint8");
  for (DType type : {DType::Float32, DType::Float64, DType::BFloat16})
    EXPECT_EQ(dispatch(type, [](auto zero) { return sizeof zero; }), size_of(type));
}

}  // namespace
}  // namespace taxon
