#pragma once

#include <functional>
#include <memory>

#include "job/inputs.h"
#include "job/job.h"
#include "train/train.h"

namespace taxon::job {

/// The data and the model of the job's plan. Throws Error{Data} or Error{Usage} with one clear line.
TrainingInputs open_training_inputs(Job& job);
/// The data alone: there is no model.
TrainingInputs open_training_data(Job& job);

/// Trains as the job's plan says, from the first broadcast to the final test. Collective over all ranks.
/// `model` is not bound yet, and equal on every rank up to its weights, of which rank 0's count; `observer`
/// is called on this thread, on every rank. `options`: where files go and how the run starts; `plan`,
/// `version`, `clock_offset`, `failures` and `own` are the job's, and so is `stop` where there is none.
/// Throws Error: Usage for a plan that makes no sense, else as train::train().
train::Outcome train(Job& job, model::Model& model, const data::Datasets& data, train::Observer& observer,
                     train::TrainOptions options = {});

/// Makes a rank's model.
using ModelMaker = std::function<std::unique_ptr<model::Model>(const model::ModelContext& context)>;
/// The same with what `make` makes of the job's plan for these data. What that throws ends all ranks.
train::Outcome train_made(Job& job, const ModelMaker& make, const data::Datasets& data,
                          train::Observer& observer, train::TrainOptions options = {});

}  // namespace taxon::job
