#include "plan/mesh.h"

namespace taxon::plan {
namespace {

int replicas(const MeshPlan& mesh, int world_size) { return world_size / ranks_of_replica(mesh); }

}  // namespace

MeshPosition position_of(const MeshPlan& mesh, int world_size, Rank rank) {
  const int data = replicas(mesh, world_size), r = rank.value();
  return {r / mesh.tensor / data, r / mesh.tensor % data, r % mesh.tensor};
}

Rank rank_at(const MeshPlan& mesh, int world_size, const MeshPosition& position) {
  return Rank((position.pipeline * replicas(mesh, world_size) + position.data) * mesh.tensor +
              position.tensor);
}

std::vector<Rank> pipeline_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  std::vector<Rank> ranks;
  for (position.pipeline = 0; position.pipeline < mesh.pipeline; ++position.pipeline)
    ranks.push_back(rank_at(mesh, world_size, position));
  return ranks;
}

std::vector<Rank> data_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  std::vector<Rank> ranks;
  for (position.data = 0; position.data < replicas(mesh, world_size); ++position.data)
    ranks.push_back(rank_at(mesh, world_size, position));
  return ranks;
}

std::vector<Rank> tensor_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  std::vector<Rank> ranks;
  for (position.tensor = 0; position.tensor < mesh.tensor; ++position.tensor)
    ranks.push_back(rank_at(mesh, world_size, position));
  return ranks;
}

std::vector<Rank> replica_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  std::vector<Rank> ranks;
  for (position.pipeline = 0; position.pipeline < mesh.pipeline; ++position.pipeline)
    for (Rank rank : tensor_ranks(mesh, world_size, position)) ranks.push_back(rank);
  return ranks;
}

}  // namespace taxon::plan
