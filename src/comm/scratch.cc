#include "comm/scratch.h"

#include <new>

namespace taxon::comm {
namespace {

constexpr std::size_t kAlignment = 4096;
/// More would only serve as many uses at the same time.
constexpr std::size_t kKept = 16;

}  // namespace

ScratchPool::Block ScratchPool::take(std::size_t size) {
  auto best = blocks_.end();
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
    if (block->size >= size && (best == blocks_.end() || block->size < best->size)) best = block;
  Block block;
  if (best != blocks_.end()) {
    block = std::move(*best);
    blocks_.erase(best);
    return block;
  }
  if (blocks_.size() == kKept) blocks_.erase(blocks_.begin());
  block.size = (size + kAlignment - 1) / kAlignment * kAlignment;
  block.memory.reset(std::aligned_alloc(kAlignment, block.size));
  if (!block.memory) throw std::bad_alloc();
  return block;
}

void ScratchPool::give(Block block) { blocks_.push_back(std::move(block)); }

Scratch::Scratch(ScratchPool& pool, std::size_t size, View beside) : pool_(pool) {
  if (size == 0) return;
  if (beside.is_phantom()) {
    bytes_ = View::phantom(size);
    return;
  }
  block_ = pool_.take(size);
  bytes_ = View(static_cast<std::byte*>(block_.memory.get()), size);
}

Scratch::~Scratch() {
  if (block_.memory) pool_.give(std::move(block_));
}

}  // namespace taxon::comm
