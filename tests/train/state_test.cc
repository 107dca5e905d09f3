#include "train/state/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace taxon::train {
namespace {

using ::testing::ElementsAre;

TEST(NamedBuffers, LeaveOutWhatIsNoPartOfTheModelsState) {
  model::ModelSpec spec;
  spec.buffers = {{.name = "mean", .shape = {2}},
                  {.name = "scale", .shape = {3}, .persistent = false},
                  {.name = "seen", .shape = {}}};
  const std::vector<double> values = {1, 2, 3, 4, 5, 6};
  const auto tensors = named_buffers(spec, values);
  ASSERT_EQ(tensors.size(), 2U);
  const auto floats = [&](std::size_t i) {
    const auto found = as_span<float>(ConstView(tensors[i].bytes.data(), tensors[i].bytes.size()));
    return std::vector<float>(found.begin(), found.end());
  };
  EXPECT_EQ(tensors[0].name, "mean");
  EXPECT_THAT(floats(0), ElementsAre(1, 2));
  EXPECT_EQ(tensors[1].name, "seen");
  EXPECT_THAT(floats(1), ElementsAre(6)) << "values of the one that is left out are passed over";
}

TEST(NamedBuffers, HaveTheirTypes) {
  model::ModelSpec spec;
  spec.buffers = {{.name = "seen", .shape = {}, .type = DType::Int64},
                  {.name = "exact", .shape = {}, .type = DType::Float64},
                  {.name = "place", .shape = {}, .type = DType::Int32},
                  {.name = "byte", .shape = {}, .type = DType::UInt8},
                  {.name = "mask", .shape = {2}, .type = DType::UInt8, .is_flags = true}};
  const std::vector<double> values = {0x1p40 + 1, 0.1, -7, 255, 1, 0};
  const auto tensors = named_buffers(spec, values);
  const auto found = [&]<class T>(std::size_t i, T) {
    const auto span = as_span<T>(ConstView(tensors[i].bytes.data(), tensors[i].bytes.size()));
    return std::vector<T>(span.begin(), span.end());
  };
  EXPECT_THAT(found(0, std::int64_t{}), ElementsAre((std::int64_t{1} << 40) + 1));
  EXPECT_THAT(found(1, double{}), ElementsAre(0.1));
  EXPECT_THAT(found(2, std::int32_t{}), ElementsAre(-7));
  EXPECT_THAT(found(3, std::uint8_t{}), ElementsAre(255));
  EXPECT_THAT(found(4, std::uint8_t{}), ElementsAre(1, 0));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].type, spec.buffers[i].type);
    EXPECT_EQ(tensors[i].is_flags, spec.buffers[i].is_flags);
  }
}

}  // namespace
}  // namespace taxon::train
