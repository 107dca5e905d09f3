#pragma once

#include <vector>

#include "model/model.h"

namespace taxon::model {

/// Tells which buckets of the gradients are complete, for models whose gradients come tensor by tensor, or
/// row by row.
class Progress {
 public:
  Progress() = default;
  explicit Progress(const Binding& binding);

  /// A new step: nothing is complete.
  void begin();
  /// The gradients of these elements of the weights, all inside one slot, are final. Each element at most
  /// once per step. Marks the buckets that are complete by it.
  void completed(Range elements, tensor::Milestones& marks);
  /// The step is over: marks the buckets that have no elements.
  void finish(tensor::Milestones& marks) const;

 private:
  std::vector<Range> buckets_;
  std::vector<std::size_t> sizes_;    // elements of slots in each bucket
  std::vector<std::size_t> missing_;  // of them, still to come in this step
};

}  // namespace taxon::model
