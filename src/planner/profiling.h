#pragma once

#include "job/inputs.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "planner/measured.h"

namespace taxon::planner {

struct ProfilingOptions {
  int workers = 1;  // that share the plan's batch
  int steps = 20;   // the median of so many counts
  int warm_up = 3;  // more before them
  int threads = 1;  // that compute; times of one are its processor time
};

struct MeasuredProfile {
  plan::ModelProfile profile;
  Measured backward;                   // passes
  std::optional<double> queued_share;  // of the threads' time, waiting for cores; nothing: not known
};

/// Measures what a step of the plan's model costs: forward pass and backward pass of each segment, when each
/// gradient is complete, the optimiser's update, and reading a batch. Takes time; the machine should have
/// nothing else to do, but what it will have to do when such steps are trained. Leaves the model unbound.
/// Where the plan splits layers, of the parts that the first rank has, of all stages of a pipeline; the model
/// is divided so from then on. What other members would hand it is copies of its own. Throws Error{Usage} as
/// train::divide(), and for a pass of more samples than there are.
MeasuredProfile measure_profile(const job::TrainingInputs& training, const plan::Plan& plan,
                                const ProfilingOptions& options);

}  // namespace taxon::planner
