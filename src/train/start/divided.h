#pragma once

#include <memory>

#include "model/staged.h"
#include "program/schedule.h"
#include "train/start/resume.h"

namespace taxon::train {

/// A model that ranks hold parts of, and what they do in a step.
struct Divided {
  model::ModelSpec whole;     // before it was divided
  std::vector<Range> stages;  // segments of each
  program::Program program;   // of the pipeline's ranks
  std::string account;        // model::Staged::account()
};

/// Divides the model as the plan's mesh says: into the schedule's stages, cut where pipeline.cut says or so
/// that none takes longer than it must, and these among the tensor axis; or, where ranks keep parts of its
/// parameters, into segments that each rank passes. Every rank comes to the same cut by itself. Null where
/// each worker has a whole model. Throws Error{Usage} that says what can't be
/// divided so.
task::Task<std::unique_ptr<Divided>> divide(TrainContext world, const TrainOptions* options,
                                            RankGroups ranks);

/// Throws Error{Usage} for a model that can't be divided.
model::Staged& staged_passes(model::Model& model);

/// Each segment is a stage, and one process has all: where parameters are there only while they are used.
model::Division by_segments(const model::ModelSpec& whole);

/// In words: which segments lie on which ranks of a pipeline and what the schedule makes of their times, and
/// why layers are split as they are.
std::vector<std::string> describe(const Divided& divided, const plan::Plan& plan);

/// Segments of each of so many stages. `cut`: names of those that begin one after the first; empty: balanced.
/// Throws Error{Usage}.
std::vector<Range> cut_into_stages(const model::ModelSpec& spec, int stages,
                                   const std::vector<std::string>& cut);

}  // namespace taxon::train
