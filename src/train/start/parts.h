#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "train/start/resume.h"

namespace taxon::train {

// Checkpoints hold whole models, whatever mesh trained them. Rank 0 reads and writes them; the ranks of the
// first replica have the parts, each of which is one for all replicas.

/// A member's part of a tensor: of each of `blocks` equally long blocks of dimension `split` the member-th of
/// equal parts. All of it where split < 0. REQUIRES: they divide the dimension.
checkpoint::LogicalTensor cut_tensor(const checkpoint::LogicalTensor& whole, int split, int blocks,
                                     int members, int member);
/// The other way round, from every member's part in order.
checkpoint::LogicalTensor join_tensor(const std::vector<const checkpoint::LogicalTensor*>& parts, int split,
                                      int blocks);

/// Collective over the first replica. `whole`: rank 0's; null: there is none, and the result is none. What of
/// it this rank and those with the same part go on from: weights, the optimiser's state and, if `same_mesh`
/// at rank 0, what each of them had for itself.
task::Task<std::optional<checkpoint::Checkpoint>> hand_out_parts(RankGroups ranks, const plan::MeshPlan* mesh,
                                                                 const model::ModelSpec* own,
                                                                 const checkpoint::Checkpoint* whole,
                                                                 bool same_mesh);

/// Collective over the first replica: tensors named "parameter" or "state/parameter", or as a buffer, of
/// every part; at rank 0 the whole ones, those of one state together and in the order of the whole model's
/// spec. Elsewhere nothing.
task::Task<std::vector<checkpoint::LogicalTensor>> join_parts(RankGroups ranks,
                                                              std::vector<checkpoint::LogicalTensor> own,
                                                              const model::ModelSpec* spec,
                                                              const model::ModelSpec* whole);

}  // namespace taxon::train
