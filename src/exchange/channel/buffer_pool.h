#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tensor/arena.h"

namespace taxon::exchange {

/// Where arenas stand that nobody uses now.
using IdleArenas = std::vector<std::unique_ptr<tensor::Arena>>;

/// An arena that goes back to where it stood when its user is done with it; to nowhere by default.
struct ReturnArena {
  IdleArenas* home = nullptr;
  void operator()(tensor::Arena* arena) const {
    std::unique_ptr<tensor::Arena> own(arena);
    if (home) home->push_back(std::move(own));
  }
};
using Buffer = std::unique_ptr<tensor::Arena, ReturnArena>;

/// Arenas of one size, made as they are needed: as many as were ever in use at a time. Outlives its buffers
/// and does not move while some are out.
class BufferPool {
 public:
  BufferPool() = default;
  /// `beside`: buffers are phantoms where this is one.
  BufferPool(DType type, std::size_t size, View beside) : type_(type), size_(size), beside_(beside) {}
  /// What it holds is whatever its last user left.
  Buffer take() {
    if (idle_.empty()) idle_.push_back(std::make_unique<tensor::Arena>(type_, size_, beside_));
    Buffer buffer(idle_.back().release(), ReturnArena{&idle_});
    idle_.pop_back();
    return buffer;
  }

 private:
  DType type_ = DType::Float32;
  std::size_t size_ = 0;
  View beside_;
  IdleArenas idle_;
};

}  // namespace taxon::exchange
