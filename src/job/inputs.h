#pragma once

#include <memory>

#include "data/dataset.h"
#include "model/model.h"
#include "plan/plan.h"

namespace taxon::job {

/// Compute threads of one of `local_ranks` workers of this host.
int compute_threads(const plan::Plan& plan, int local_ranks);

/// What a rank's model is built from for samples of that shape. `plan` outlives it.
model::ModelContext model_context(const plan::Plan& plan, const data::SampleShape& shape, int rank,
                                  int local_ranks);

/// What a rank trains on and with; throws Error{Data} or Error{Usage} with one clear line.
struct TrainingInputs {
  std::shared_ptr<const data::Storage> files = {};  // that the data sets read, where nobody else keeps it
  data::Datasets datasets;
  std::unique_ptr<model::Model> model;
};
/// `storage` outlives them.
TrainingInputs open_training_inputs(const plan::Plan& plan, const data::Storage& storage, int rank,
                                    int local_ranks);

}  // namespace taxon::job
