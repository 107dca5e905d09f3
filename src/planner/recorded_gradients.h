#pragma once

#include <vector>

#include "exchange/layout/bucket.h"
#include "model/model.h"
#include "plan/plan.h"
#include "tensor/arena.h"

namespace taxon::data {
class Dataset;
}

namespace taxon::planner {

/// A gradient as training exchanges it.
struct RecordedGradient {
  exchange::Layout layout;
  tensor::Arena values;  // of the layout
  double seconds = 0;    // of a forward and backward pass, the median
};

/// Trains the model alone for so many steps, by plain gradient descent, and keeps the last one's gradient.
/// Leaves the model unbound. REQUIRES: float32 masters; steps > 0.
RecordedGradient record_gradient(model::Model& model, const data::Dataset& train, const plan::Plan& plan,
                                 std::int64_t samples, int steps);

}  // namespace taxon::planner
