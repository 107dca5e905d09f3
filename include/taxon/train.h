#pragma once

#include "job/training.h"
#include "taxon/dataset.h"
#include "taxon/job.h"
#include "taxon/model.h"
#include "taxon/observer.h"
#include "taxon/plan.h"

/// Training as a rank of a job: train(job, model, data, observer), found by its first argument.
namespace taxon {

using job::open_training_inputs;
using job::TrainingInputs;
using train::TrainOptions;

}  // namespace taxon
