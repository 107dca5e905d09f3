#include "base/aligned_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace taxon::test {
namespace {

TEST(AlignedMemory, IsZeroedAndBeginsAtALineOrAtAHugePage) {
  for (std::size_t size : {1UL, 100UL, 8192UL, (4UL << 20) - 1, 4UL << 20, (5UL << 20) + 7}) {
    const AlignedMemory memory = allocate_aligned(size);
    ASSERT_TRUE(memory) << size;
    EXPECT_TRUE(
        std::all_of(memory.get(), memory.get() + size, [](std::byte b) { return b == std::byte{0}; }));
    const std::uintptr_t wanted = size < 4UL << 20 ? 64 : 2UL << 20;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % wanted, 0U) << size;
  }
}

TEST(AlignedMemory, IsNullWhereThereIsNone) { EXPECT_FALSE(allocate_aligned(SIZE_MAX / 2)); }

}  // namespace
}  // namespace taxon::test
