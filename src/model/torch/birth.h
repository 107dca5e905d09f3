#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

namespace taxon::model {

/// Decides where tensors are born: asked for every allocation in the memory of the processor.
class Births {
 public:
  virtual ~Births() = default;
  /// At least `bytes` bytes, aligned to 64: memory of its own, or out of `usual`.
  virtual c10::DataPtr birth(std::size_t bytes, c10::Allocator& usual) = 0;
};

/// While this object lives `births` is asked for the allocations of this thread. Others, and whatever is
/// allocated outside, are libtorch's own. Where another library takes libtorch's allocator over after the
/// first use, `births` is never asked.
class BirthScope {
 public:
  explicit BirthScope(Births& births);
  ~BirthScope();
  BirthScope(const BirthScope&) = delete;

 private:
  Births* outer_;
};

}  // namespace taxon::model
