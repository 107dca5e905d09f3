#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "model/model.h"

namespace taxon::model {

/// When the owner's forward pass of a step may begin: once all weights are updated, or with the first ones;
/// each operator of its thread then waits for the weights that it reads.
enum class WeightsAtBegin { Whole, AsRead };

/// How many weights of a step may be read: all of the segments before `segment`, and, unless `rows` is 0, of
/// that one the first rows of its weight_by_rows and its other parameters.
struct ReadableWeights {
  int segment = 0;
  std::int64_t rows = 0;
  auto operator<=>(const ReadableWeights&) const = default;
};

/// Who computes the steps of a model in a loop of its own, on a thread of its own.
class StepOwner {
 public:
  virtual ~StepOwner() = default;

  // The run calls, on its compute stream.

  /// Model::forward(), forward_rows(): the owner may begin the step, and read the weights up to `until`.
  /// Returns when it needs others.
  virtual void advance(const StepInput& input, ReadableWeights until) = 0;
  /// The owner may read all weights, and go backward; returns when it has computed the step. `input` is its
  /// own until then.
  virtual StepOutput compute(const StepInput& input) = 0;
  /// The weights are about to be taken away: returns when the owner reads none.
  virtual void recall() = 0;

  // The owner calls.

  /// Waits until these weights of its step may be read; kBackward: all, and until its gradients are awaited.
  /// Throws what ended the run meanwhile.
  virtual void need(ReadableWeights weights) = 0;
  static constexpr ReadableWeights kBackward{std::numeric_limits<int>::max()};
};

}  // namespace taxon::model
