#pragma once

#include <cstddef>
#include <memory>

namespace taxon {

struct FreeMemory {
  void operator()(std::byte* memory) const;
};

/// Memory of this process alone.
using AlignedMemory = std::unique_ptr<std::byte, FreeMemory>;

/// Zeroed, and aligned for every element type and vector. What is several huge pages large begins at one, and
/// the system is asked for those: kernels stream through weights and gradients, and miss the TLB once a page.
/// Null if there is no memory.
AlignedMemory allocate_aligned(std::size_t size);

}  // namespace taxon
