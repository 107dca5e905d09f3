#include "job/inputs.h"

#include <algorithm>

#include "data/split.h"
#include "launch/host.h"

namespace taxon::job {
int compute_threads(const plan::Plan& plan, int local_ranks) {
  return plan.threads > 0 ? plan.threads
                          : std::max(1, static_cast<int>(launch::usable_cores() / local_ranks));
}

model::ModelContext model_context(const plan::Plan& plan, const data::SampleShape& shape, int rank,
                                  int local_ranks) {
  return {.plan = &plan.model,
          .task = &plan.task,
          .shape = shape,
          .compute = plan.precision.compute,
          .seed = plan.seed,
          .rank = rank,
          .threads = compute_threads(plan, local_ranks)};
}

TrainingInputs open_training_inputs(const plan::Plan& plan, const data::Storage& storage, int rank,
                                    int local_ranks) {
  TrainingInputs inputs;
  inputs.datasets = data::open_split(plan, storage);
  inputs.model = model::make_model(model_context(plan, inputs.datasets.train->shape(), rank, local_ranks));
  return inputs;
}

}  // namespace taxon::job
