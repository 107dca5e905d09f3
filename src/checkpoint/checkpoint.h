#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/logical_tensor.h"
#include "data/storage.h"

namespace taxon::checkpoint {

/// Everything that a run continues from. docs/checkpoints.md describes the files.
struct Checkpoint {
  std::string plan_yaml;  // resolved
  std::string taxon_version;
  std::uint64_t seed = 0;
  int world_size = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;                          // of the whole job
  std::vector<LogicalTensor> weights;                // replicated: every parameter
  std::vector<LogicalTensor> optimiser;              // replicated: "momentum/conv1.weight"
  std::vector<std::vector<LogicalTensor>> per_rank;  // [rank]: what differs per rank (buffers, random state)
  /// Weights that are not trained, of one that is to be saved: they may be infinite, as a mask is.
  std::vector<std::string> frozen = {};
};

/// The name of the first tensor of trained weights, the optimiser's state or a rank's replica that is not
/// finite; none: all are.
std::optional<std::string> find_not_finite(const Checkpoint& checkpoint);

/// Writes checkpoints/step-... under `folder`, its manifest last, then moves `latest` on and removes all but
/// the newest `keep` (at least one) of those that are not beyond this one's step; the newest with finite
/// weights stays in any case. Returns the checkpoint's path. A crash at any instant leaves the older ones
/// valid. Throws Error{Output}. REQUIRES: per_rank has an entry per rank.
std::string save(data::Storage& storage, const std::string& folder, const Checkpoint& checkpoint, int keep);

/// A checkpoint to go on from.
struct Found {
  std::string path;
  Checkpoint checkpoint;
  std::vector<std::string> passed_over;  // newer ones: why each of them can't be used
};
/// What may be gone on from: weights that are no numbers, or finite ones alone.
enum class Weights { Any, Finite };
/// The newest checkpoint under `folder` that is whole: the one that find_latest() names, or else one of fewer
/// steps. None if there is none at all. Throws Error{Checkpoint} of the newest one if none is whole, and if a
/// newer format comes first.
std::optional<Found> load_newest(const data::Storage& storage, const std::string& folder, Weights weights);
/// The newest one of that step. Throws Error{Checkpoint}: it can't be used, or there is none, and which there
/// are.
Found load_step(const data::Storage& storage, const std::string& folder, std::int64_t step);

/// Path of the newest complete checkpoint under `folder`: the one that `latest` names, or, when that is
/// missing or incomplete, the complete one of the highest step. None if there is none.
std::optional<std::string> find_latest(const data::Storage& storage, const std::string& folder);

/// Reads one and verifies every byte. Throws Error{Checkpoint}: cut short, damaged, or of a newer format.
Checkpoint load(const data::Storage& storage, const std::string& path);

/// Throws Error{Checkpoint} that lists the first differences if `weights` are not those of a model with these
/// tensors (types and bytes ignored). `path` names the checkpoint in the message.
void require_same_model(const std::vector<LogicalTensor>& weights, const std::vector<LogicalTensor>& model,
                        const std::string& path);

/// 16 hex digits that depend on the names and shapes alone, in their order.
std::string model_hash(const std::vector<LogicalTensor>& weights);

}  // namespace taxon::checkpoint
