#pragma once

#include "train/start/resume.h"

namespace taxon::train {

/// What a rank of a group of another size gets of what the ranks of a checkpoint kept from step to step: an
/// equal share, so that the sum over the workers stays, or, where replicas meet, the mean. Errors count in
/// the sum of gradients and in the mean of replicas, whoever hands them in. Nothing for a plan whose levels
/// are not one over all ranks, where the shares would differ.
std::vector<checkpoint::LogicalTensor> share_kept(const checkpoint::Checkpoint& from, const plan::Plan& plan,
                                                  int world_size);

/// Makes room for what the levels keep, and fills it with what the checkpoint had for this rank; zeros
/// otherwise. Collective only in that every rank calls it.
task::Task<void> restore_kept(TrainContext world, RankGroups ranks, const RunStart* run_start, State* state);

/// For checkpoints; for bodies of kernels.
std::vector<checkpoint::LogicalTensor> pack_kept(const exchange::Levels& levels, const State& state);

}  // namespace taxon::train
