#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "data/storage.h"

namespace taxon::checkpoint {

/// A tensor by its name in the model, whatever ranks, arenas and buckets held it.
struct LogicalTensor {
  std::string name;
  DType type = DType::Float32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // row-major, little-endian
};

/// Everything that a run continues from. docs/checkpoints.md describes the files.
struct Checkpoint {
  std::string plan_yaml;            // resolved
  std::string taxon_version;
  std::uint64_t seed = 0;
  int world_size = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;         // of the whole job
  std::vector<LogicalTensor> weights;    // replicated: every parameter
  std::vector<LogicalTensor> optimiser;  // replicated: "momentum/conv1.weight"
  std::vector<std::vector<LogicalTensor>> per_rank;  // [rank]: what differs per rank (buffers, random state)
};

/// Writes checkpoints/step-... under `folder`, its manifest last, then moves `latest` on and removes all but the newest `keep`.
/// Returns the checkpoint's path. A crash at any instant leaves the older ones valid. Throws Error{Output}.
std::string save(data::Storage& storage, const std::string& folder, const Checkpoint& checkpoint, int keep);

/// Path of the newest complete checkpoint under `folder`; none if there is none.
std::optional<std::string> find_latest(const data::Storage& storage, const std::string& folder);

/// Reads and verifies one. Throws Error{Checkpoint}: cut short, damaged, or of a newer format.
Checkpoint load(const data::Storage& storage, const std::string& path);

/// Throws Error{Checkpoint} that lists the first differences if `weights` are not those of a model with these tensors (bytes ignored).
void require_same_model(const std::vector<LogicalTensor>& weights, const std::vector<LogicalTensor>& model, const std::string& path);

}  // namespace taxon::checkpoint
