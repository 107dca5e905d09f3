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
  int updates = 1;            // that it makes of each stage; above 1 each stage makes them by itself
  std::int64_t samples = 1;   // of a replica, in a step
  std::string account;        // model::Staged::account()

  /// Of the weights of this rank of the pipeline, that passes use at once.
  int versions(int rank) const;
  /// Samples of the largest.
  std::int64_t micro_batch() const { return (samples + program.micros - 1) / program.micros; }
};

/// Divides the model as the plan's mesh says: into the schedule's stages, cut where pipeline.cut says or so
/// that none takes longer than it must, and these among the tensor axis; or, where ranks keep parts of its
/// parameters and there is one stage, into segments that each rank passes. Every rank comes to the same cut
/// by itself. Null where each worker has a whole model. Throws Error{Usage} that says what can't be divided
/// so.
task::Task<std::unique_ptr<Divided>> divide(TrainContext world, const TrainOptions* options,
                                            RankGroups ranks);
/// The same of this rank's model, where it is to be divided, by a call that blocks.
Divided divide(model::Model& model, const TrainOptions& options, RankGroups ranks);

/// Throws Error{Usage} for a model that can't be divided.
model::Staged& staged_passes(model::Model& model);

/// Each segment is a stage, and one process has all: where parameters are there only while they are used.
model::Division by_segments(const model::ModelSpec& whole);

/// Bytes of activations that each rank of a pipeline keeps at once, counted as what segments put out, as if
/// one member of the tensor axis had all of them.
std::vector<double> kept_activations(const Divided& divided, const plan::Plan& plan);

/// In words: which segments lie on which ranks of a pipeline, what the schedule makes of their times and what
/// they keep, and why layers are split as they are.
std::vector<std::string> describe(const Divided& divided, const plan::Plan& plan);

/// Segments of each of so many stages. `cut`: names of those that begin one after the first; empty: balanced.
/// Throws Error{Usage}.
std::vector<Range> cut_into_stages(const model::ModelSpec& spec, int stages,
                                   const std::vector<std::string>& cut);

}  // namespace taxon::train
