#include "plan/mesh.h"

#include <gtest/gtest.h>

#include <set>

namespace taxon::plan {
namespace {

TEST(Mesh, CountsTensorThenDataThenPipeline) {
  const MeshPlan mesh{.pipeline = 3, .tensor = 2};
  constexpr int kWorld = 24, kReplicas = 4;
  for (int rank = 0; rank < kWorld; ++rank) {
    const MeshPosition at = position_of(mesh, kWorld, Rank(rank));
    EXPECT_EQ((at.pipeline * kReplicas + at.data) * mesh.tensor + at.tensor, rank);
    EXPECT_EQ(rank_at(mesh, kWorld, at), Rank(rank));
  }
}

TEST(Mesh, AxesThroughARankMeetThereAlone) {
  const MeshPlan mesh{.pipeline = 2, .tensor = 3};
  constexpr int kWorld = 12;
  for (int rank = 0; rank < kWorld; ++rank) {
    const MeshPosition at = position_of(mesh, kWorld, Rank(rank));
    std::multiset<Rank> together;
    for (const auto& axis :
         {pipeline_ranks(mesh, kWorld, at), data_ranks(mesh, kWorld, at), tensor_ranks(mesh, kWorld, at)})
      together.insert(axis.begin(), axis.end());
    EXPECT_EQ(together.count(Rank(rank)), 3u);
    EXPECT_EQ(together.size(), 2u + 2u + 3u);
    const std::vector<Rank> replica = replica_ranks(mesh, kWorld, at);
    EXPECT_EQ(replica.size(), 6u);
    for (Rank other : replica) EXPECT_EQ(position_of(mesh, kWorld, other).data, at.data);
  }
}

TEST(Mesh, ServersStandBehindWorkersOnTheAxisOfData) {
  const MeshPlan mesh{.servers = 1};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(position_of(mesh, 3, Rank(rank)).data, rank);
}

TEST(Mesh, OfMoreRanksThanThereAreHoldsNoReplica) {
  Plan plan;
  plan.mesh = {.pipeline = 1 << 16, .tensor = 1 << 16};
  EXPECT_GT(ranks_of_replica(plan.mesh), 1 << 20);
  EXPECT_EQ(workers(plan, 2), 1);
}

}  // namespace
}  // namespace taxon::plan
