#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "exchange/exchange.h"
#include "tensor/device.h"

namespace taxon::train {

/// A step in flight: from the beginning of its backward pass until its update is over.
struct Flight {
  /// A kernel that completes the gradients of segments from this one on, as far as none before it did.
  struct Completion {
    std::unique_ptr<tensor::KernelHandle> backward;
    int segment = 0;
  };
  std::unique_ptr<exchange::Exchange> exchange;
  std::vector<Completion> backward;  // of one pass; the exchange may still refer to them
  bool contributes = true;           // as they are made; otherwise with contribute(), when all are there
  bool may_update = false;

  /// A kernel that was started.
  tensor::KernelHandle& add(std::unique_ptr<tensor::KernelHandle> kernel, int segment) {
    backward.push_back({std::move(kernel), segment});
    if (contributes) exchange->contribute(*backward.back().backward, segment);
    return *backward.back().backward;
  }
  void contribute() {
    for (const Completion& each : backward) exchange->contribute(*each.backward, each.segment);
  }
};

}  // namespace taxon::train
