#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "base/view.h"

namespace taxon::comm {

/// Memory for partial results that is kept between uses: a fresh large block would cost a page fault per 4
/// KiB each time.
class ScratchPool {
 public:
  struct Block {
    struct Free {
      void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory;
    std::size_t size = 0;
  };
  /// At least `size` bytes, aligned for every element type and vector.
  Block take(std::size_t size);
  void give(Block block);

 private:
  std::vector<Block> blocks_;
};

/// A block of a pool for the life of this object. Phantom, without memory, when it is to stand beside phantom
/// data. The pool outlives it.
class Scratch {
 public:
  Scratch(ScratchPool& pool, std::size_t size, View beside);
  Scratch(const Scratch&) = delete;
  ~Scratch();
  View bytes() const { return bytes_; }

 private:
  ScratchPool& pool_;
  ScratchPool::Block block_;
  View bytes_;
};

}  // namespace taxon::comm
