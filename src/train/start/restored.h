#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/start/resume.h"

namespace taxon::train {

/// The checkpoint that a run goes on from, with its plan.
struct Restored {
  checkpoint::Checkpoint checkpoint;
  plan::Plan plan;
  std::vector<double> parameters;    // in the order of the model's spec
  std::vector<std::string> notices;  // what was passed over, and what is another than it was
  bool same_mesh = false;            // it was written by as many ranks that were laid out alike
};

/// Reads it as `options` say; none if there is none. `whole`: the model's spec, before it was divided. Throws
/// Error{Checkpoint} for one that this model can't go on from, whatever is in it, and Error{Usage} if it was
/// trained with another seed, model, data, batch, precision, optimiser or learning rate than the plan's, or
/// on another number of samples than `train_samples`, other than where `options.assignments` say so. For
/// bodies of kernels.
std::optional<Restored> read_restored(const data::Storage& storage, const model::Model& model,
                                      const model::ModelSpec& whole, std::int64_t train_samples,
                                      const TrainOptions& options);

}  // namespace taxon::train
