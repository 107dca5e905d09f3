#pragma once

#include <vector>

#include "model/model.h"
#include "model/staged.h"

namespace taxon::model {

// What the passes of a step cost by the spec's figures, for the virtual world and for reports. Everything is
// 0 where the spec has none. Backward visits the segments in reverse order.

/// The forward pass of `samples` through segments [from, until). Of 2.5 the fraction is half of segment 2.
tensor::Cost forward_cost(const ModelSpec& spec, double samples, double from, double until);

/// The rest of a step whose first micro-batch has come through the segments before `from`, as above: the
/// other forward passes and all backward passes.
struct StepCost {
  tensor::Cost cost;
  /// For each of the binding's buckets: the share of the time after which it is complete. The last
  /// micro-batch completes them.
  std::vector<double> bucket_shares;
};
StepCost step_cost(const ModelSpec& spec, const StepInput& input, double from, const Binding& binding);

/// One piece of a step that comes in pieces: the backward pass of segment `from`. The first, of the last
/// segment, also does what is left of the forward pass, from segment `begun` on.
tensor::Cost piece_cost(const ModelSpec& spec, const StepInput& input, double begun, int from);

/// The backward pass of `samples` through these segments of a model that is divided; of inputs or of weights
/// alone it is half of the whole, and where activations are computed again a forward pass comes before that
/// of inputs. A bucket's share is 1 where the pass completes nothing of it.
StepCost backward_cost(const ModelSpec& spec, double samples, Range segments, Gradients which,
                       const Binding& binding, plan::Activations activations = plan::Activations::Kept);

/// Samples of one micro-batch of a worker's share.
double micro_batch_samples(const StepInput& input);

}  // namespace taxon::model
