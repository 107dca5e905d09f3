#include "model/memory_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace taxon::model {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(MemoryOrder, OfChannelsLastHasThoseOfOnePixelSideBySide) {
  const ParameterSpec filters{.name = "weight", .shape = {2, 3, 1, 2}, .channels_last = true};
  std::vector<float> values(12), arena(12), back(12);
  std::iota(values.begin(), values.end(), 0.0F);
  to_arena(filters, DType::Float32, as_view(std::span(values)), as_view(std::span(arena)));
  EXPECT_THAT(arena, ElementsAre(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11));
  from_arena(filters, DType::Float32, as_view(std::span(arena)), as_view(std::span(back)));
  EXPECT_EQ(back, values);
}

TEST(MemoryOrder, OfOthersIsTheShapes) {
  for (const ParameterSpec& parameter : {ParameterSpec{.name = "weight", .shape = {2, 3, 1, 2}},
                                         ParameterSpec{.name = "bias", .shape = {12}}}) {
    std::vector<double> values(12), arena(12), back(12);
    std::iota(values.begin(), values.end(), 0.0);
    to_arena(parameter, DType::Float64, as_view(std::span(values)), as_view(std::span(arena)));
    EXPECT_THAT(arena, ElementsAreArray(values));
    from_arena(parameter, DType::Float64, as_view(std::span(arena)), as_view(std::span(back)));
    EXPECT_EQ(back, values);
  }
  to_arena({.name = "empty", .shape = {0}}, DType::Float32, {}, {});
}

}  // namespace
}  // namespace taxon::model
