#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/named.h"
#include "plan/plan.h"

namespace taxon::plan {

/// Where a rank stands on the axes of the mesh. Ranks count tensor first, then data, then pipeline, so that
/// those that move most between them are neighbours: rank = (pipeline D + data) T + tensor.
struct MeshPosition {
  int pipeline = 0, data = 0, tensor = 0;
  friend bool operator==(const MeshPosition&, const MeshPosition&) = default;
};

/// Ranks that make one replica of the model. 1: every worker has all of it.
inline int ranks_of_replica(const MeshPlan& mesh) {
  const std::int64_t ranks = std::int64_t{mesh.pipeline} * mesh.tensor;
  return static_cast<int>(std::min<std::int64_t>(ranks, std::numeric_limits<int>::max()));
}

/// Of a rank, and the other way round. Servers stand behind the workers on the axis of data. REQUIRES: the
/// mesh fits `world_size` ranks (plan::check_plan).
MeshPosition position_of(const MeshPlan& mesh, int world_size, Rank rank);
Rank rank_at(const MeshPlan& mesh, int world_size, const MeshPosition& position);

/// The ranks that differ from `position` on that axis alone, in the order of the axis.
std::vector<Rank> pipeline_ranks(const MeshPlan& mesh, int world_size, MeshPosition position);
std::vector<Rank> data_ranks(const MeshPlan& mesh, int world_size, MeshPosition position);
std::vector<Rank> tensor_ranks(const MeshPlan& mesh, int world_size, MeshPosition position);
/// Those that make one replica with it, ascending.
std::vector<Rank> replica_ranks(const MeshPlan& mesh, int world_size, MeshPosition position);

}  // namespace taxon::plan
