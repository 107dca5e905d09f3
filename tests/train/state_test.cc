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

}  // namespace
}  // namespace taxon::train
