#include "job/inputs.h"

#include <algorithm>

#include "data/split.h"
#include "launch/host.h"

namespace taxon::job {
int compute_threads(const plan::Plan& plan, int local_ranks) {
  return plan.threads > 0 ? plan.threads
                          : std::max(1, static_cast<int>(launch::usable_cores() / local_ranks));
}

TrainingInputs open_training_inputs(const plan::Plan& plan, const data::Storage& storage, int rank,
                                    int local_ranks) {
  TrainingInputs inputs;
  inputs.datasets = data::open_split(plan, storage);
  model::ModelContext context;
  context.plan = &plan.model;
  context.task = &plan.task;
  context.shape = inputs.datasets.train->shape();
  context.compute = plan.precision.compute;
  context.seed = plan.seed;
  context.rank = rank;
  context.threads = compute_threads(plan, local_ranks);
  inputs.model = model::make_model(context);
  return inputs;
}

}  // namespace taxon::job
