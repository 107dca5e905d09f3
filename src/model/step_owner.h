#pragma once

#include <limits>

#include "model/model.h"

namespace taxon::model {

/// When the owner's forward pass of a step may begin: once all weights are updated, or with the first ones;
/// each operator of its thread then waits for the weights that it reads.
enum class WeightsAtBegin { Whole, AsRead };

/// Who computes the steps of a model in a loop of its own, on a thread of its own.
class StepOwner {
 public:
  virtual ~StepOwner() = default;

  // The run calls, on its compute stream.

  /// Model::forward(): the owner may begin the step, and read the weights of segments before `until`. Returns
  /// when it needs others.
  virtual void advance(const StepInput& input, int until) = 0;
  /// The owner may read all weights, and go backward; returns when it has computed the step. `input` is its
  /// own until then.
  virtual StepOutput compute(const StepInput& input) = 0;
  /// The weights are about to be taken away: returns when the owner reads none.
  virtual void recall() = 0;

  // The owner calls.

  /// Waits until the weights of a segment of its step may be read; of kBackward: until its gradients are
  /// awaited. Throws what ended the run meanwhile.
  virtual void need(int segment) = 0;
  static constexpr int kBackward = std::numeric_limits<int>::max() - 1;
};

}  // namespace taxon::model
