#include "base/aligned_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace taxon {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096, kHugePage = 2 << 20;

/// Little is lost to what is rounded up.
std::size_t alignment_for(std::size_t size) {
  return size < 2 * kPage ? kLine : size < 2 * kHugePage ? kPage : kHugePage;
}

}  // namespace

void FreeMemory::operator()(std::byte* memory) const { std::free(memory); }

AlignedMemory allocate_aligned(std::size_t size) {
  const std::size_t alignment = alignment_for(size);
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  AlignedMemory memory(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (!memory) return memory;
  if (alignment == kHugePage) madvise(memory.get(), rounded, MADV_HUGEPAGE);  // a refusal only costs speed
  std::memset(memory.get(), 0, rounded);
  return memory;
}

}  // namespace taxon
