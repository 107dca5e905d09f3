#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstddef>
#include <memory>

namespace taxon::model {

/// Memory that a tensor may be born in, one at a time. Tensors may hold it longer than anybody else.
struct PlacedMemory {
  PlacedMemory(std::byte* begin, std::size_t size) : memory(begin), bytes(size) {}
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::atomic<bool> occupied = false;
};
/// The place as an allocation, which ends when the last tensor in it is gone. REQUIRES: not occupied.
c10::DataPtr occupy(std::shared_ptr<PlacedMemory> place);
/// Whether occupy() made it.
bool is_placed(const c10::DataPtr& memory);

/// Decides where tensors are born: asked for every allocation in the memory of the processor.
class GradientPlacement {
 public:
  virtual ~GradientPlacement() = default;
  /// At least `bytes` bytes, aligned to 64: memory of its own, or out of `usual`.
  virtual c10::DataPtr birth(std::size_t bytes, c10::Allocator& usual) = 0;
};

/// While this object lives `births` is asked for the allocations of this thread. Others, and whatever is
/// allocated outside, are libtorch's own. Where another library takes libtorch's allocator over after the
/// first use, `births` is never asked.
class BirthScope {
 public:
  explicit BirthScope(GradientPlacement& births);
  ~BirthScope();
  BirthScope(const BirthScope&) = delete;

 private:
  GradientPlacement* outer_;
};

}  // namespace taxon::model
