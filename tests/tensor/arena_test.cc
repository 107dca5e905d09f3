#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace taxon::tensor {
namespace {

TEST(ArenaLayout, StartsEverySlotAtAMultipleOfItsAlignment) {
  for (DType type : {DType::Float32, DType::Float64, DType::BFloat16, DType::UInt8}) {
    ArenaLayout layout(type);
    std::size_t end = 0;
    for (std::int64_t count : {1, 16, 17, 0, 1000, 3}) {
      Range range = layout.add("p", {count});
      EXPECT_EQ(range.begin * size_of(type) % ArenaLayout::kAlignment, 0U);
      EXPECT_GE(range.begin, end);
      EXPECT_LT((range.begin - end) * size_of(type), ArenaLayout::kAlignment);
      EXPECT_EQ(range.size, static_cast<std::size_t>(count));
      end = range.end();
    }
    EXPECT_GE(layout.size(), end);
    EXPECT_EQ(layout.bytes(), layout.size() * size_of(type));
    EXPECT_EQ(layout.bytes() % ArenaLayout::kAlignment, 0U);
  }
}

TEST(ArenaLayout, RemembersNamesAndShapes) {
  ArenaLayout layout(DType::Float32);
  layout.add("conv.weight", {2, 3, 5});
  layout.add("scale", {});
  ASSERT_EQ(layout.slots().size(), 2U);
  EXPECT_EQ(layout.slots()[0].name, "conv.weight");
  EXPECT_EQ(layout.slots()[0].shape, (std::vector<std::int64_t>{2, 3, 5}));
  EXPECT_EQ(layout.slots()[0].range, (Range{0, 30}));
  EXPECT_EQ(layout.slots()[1].range, (Range{32, 1})) << "a scalar has one element";
  EXPECT_EQ(layout.size(), 48U);
}

TEST(ArenaLayoutDeathTest, RefusesNegativeExtents) {
  ArenaLayout layout(DType::Float32);
  EXPECT_DEATH(layout.add("w", {4, -1}), "w has the extent -1");
}

TEST(Arena, IsZeroedAlignedAndTyped) {
  Arena arena(DType::Float32, 1001);
  EXPECT_EQ(arena.size(), 1001U);
  EXPECT_EQ(arena.bytes().size(), 4004U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.bytes().data()) % ArenaLayout::kAlignment, 0U);
  auto all = arena.values<float>({0, 1001});
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](float v) { return v == 0; }));
  arena.values<float>({10, 2})[1] = 7;
  EXPECT_EQ(all[11], 7);
  EXPECT_EQ(arena.bytes({11, 1}).data(), reinterpret_cast<std::byte*>(&all[11]));
  EXPECT_FALSE(arena.region());
}

TEST(Arena, MovesWithItsMemory) {
  Arena arena(DType::Int64, 8);
  arena.values<std::int64_t>({3, 1})[0] = 42;
  std::byte* where = arena.bytes().data();
  Arena moved = std::move(arena);
  EXPECT_EQ(moved.bytes().data(), where);
  EXPECT_EQ(moved.values<std::int64_t>({3, 1})[0], 42);
  EXPECT_EQ(moved.type(), DType::Int64);
}

TEST(Arena, MayBeEmpty) {
  Arena none;
  EXPECT_EQ(none.size(), 0U);
  Arena empty(DType::Float64, 0);
  EXPECT_TRUE(empty.bytes({0, 0}).empty());
}

TEST(ArenaDeathTest, RefusesOtherTypesAndRanges) {
  Arena arena(DType::Float32, 4);
  EXPECT_DEATH(arena.values<double>({0, 1}), "sizeof");
  EXPECT_DEATH(arena.bytes({3, 2}), "offset=12 size=8 of 16");
}

}  // namespace
}  // namespace taxon::tensor
