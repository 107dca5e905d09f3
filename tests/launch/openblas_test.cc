#include "launch/openblas.h"

#include <gtest/gtest.h>

#include <string_view>

namespace taxon::launch {
namespace {

TEST(OpenBlas, KernelsOlderThanTheProcessorAreReplaced) {
  EXPECT_EQ(better_openblas_kernels("Prescott", Isa::Avx512), "SkylakeX");
  EXPECT_EQ(better_openblas_kernels("Nehalem", Isa::Avx2), "Haswell");
  EXPECT_EQ(better_openblas_kernels("Prescott", Isa::Portable), "");
}

TEST(OpenBlas, ItsChoiceStaysWhereItKnowsTheProcessor) {
  for (std::string_view used :
       {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", "of next year", ""})
    EXPECT_EQ(better_openblas_kernels(used, Isa::Avx512), "") << used;
}

}  // namespace
}  // namespace taxon::launch
