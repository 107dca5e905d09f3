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

namespace {

std::vector<Rank> along(const MeshPlan& mesh, int world_size, MeshPosition position, int MeshPosition::*axis,
                        int length) {
  std::vector<Rank> ranks;
  for (position.*axis = 0; position.*axis < length; ++(position.*axis))
    ranks.push_back(rank_at(mesh, world_size, position));
  return ranks;
}

}  // namespace

std::vector<Rank> pipeline_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  return along(mesh, world_size, position, &MeshPosition::pipeline, mesh.pipeline);
}

std::vector<Rank> data_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  return along(mesh, world_size, position, &MeshPosition::data, replicas(mesh, world_size));
}

std::vector<Rank> tensor_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  return along(mesh, world_size, position, &MeshPosition::tensor, mesh.tensor);
}

std::vector<Rank> replica_ranks(const MeshPlan& mesh, int world_size, MeshPosition position) {
  std::vector<Rank> ranks;
  for (position.pipeline = 0; position.pipeline < mesh.pipeline; ++position.pipeline)
    for (Rank rank : tensor_ranks(mesh, world_size, position)) ranks.push_back(rank);
  return ranks;
}

}  // namespace taxon::plan
