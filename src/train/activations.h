#pragma once

#include <map>
#include <memory>

#include "tensor/arena.h"

namespace taxon::train {

/// Activations and their gradients in the transport's memory, which are used again from step to step.
/// Outlives what it lends.
class ActivationPool {
 public:
  using Lent = std::shared_ptr<tensor::Arena>;  // back when the last holder lets go
  ActivationPool(net::Transport& transport, DType type) : transport_(transport), type_(type) {}
  /// Room for so many elements, at least.
  Lent lend(std::size_t elements);
  DType type() const { return type_; }

 private:
  net::Transport& transport_;
  const DType type_;
  std::multimap<std::size_t, std::unique_ptr<tensor::Arena>> free_;  // by size
};

/// Elements of lent memory; none where there is nothing.
struct Payload {
  ActivationPool::Lent memory;
  Range range;
  explicit operator bool() const { return memory != nullptr; }
  View view() const { return memory ? memory->bytes(range) : View(); }
};

}  // namespace taxon::train
