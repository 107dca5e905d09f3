#pragma once

#include "data/dataset.h"
#include "model/model.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "planner/measured.h"

namespace taxon::planner {

struct ProfilingOptions {
  std::int64_t samples = 0;  // of a pass
  int steps = 20;            // the median of so many counts
  int warm_up = 3;           // more before them
  int threads = 1;           // that compute; times of one are its processor time
};

struct MeasuredProfile {
  plan::ModelProfile profile;
  Measured backward;                   // passes
  std::optional<double> queued_share;  // of the threads' time, waiting for cores; nothing: not known
};

/// Measures what a step of the plan's model costs: forward pass and backward pass of each segment, when each
/// gradient is complete, the optimiser's update, and reading a batch. Takes time; the machine should have
/// nothing else to do, but what it will have to do when such steps are trained. Leaves the model unbound.
MeasuredProfile measure_profile(model::Model& model, const data::Dataset& train, const plan::Plan& plan,
                                const ProfilingOptions& options);

}  // namespace taxon::planner
