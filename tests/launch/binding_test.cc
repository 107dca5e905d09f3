#include "launch/binding.h"

#include <gmock/gmock.h>

#include "launch/host.h"

namespace taxon::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Binding, RanksShareTheCoresThatAllMayUse) {
  const std::vector<std::vector<int>> two(2, {0, 1, 2, 3, 8, 9, 10});
  EXPECT_THAT(share_of_cores(two, 0, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(share_of_cores(two, 1, 3), ElementsAre(3, 8, 9, 10));
  EXPECT_THAT(share_of_cores({{4, 5}, {4, 5}}, 1, 1), ElementsAre(5));
}

/// Nobody gets fewer cores than compute threads, all cores are somebody's, and none is two ranks'.
TEST(Binding, SharesAreWholeAndApart) {
  for (int cores = 1; cores <= 12; ++cores)
    for (int ranks = 2; ranks <= cores; ++ranks) {
      std::vector<int> all(static_cast<std::size_t>(cores)), together;
      for (int core = 0; core < cores; ++core) all[static_cast<std::size_t>(core)] = 2 * core;
      const std::vector<std::vector<int>> allowed(static_cast<std::size_t>(ranks), all);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto share = share_of_cores(allowed, rank, cores / ranks);
        EXPECT_GE(static_cast<int>(share.size()), cores / ranks);
        together.insert(together.end(), share.begin(), share.end());
      }
      EXPECT_EQ(together, all) << cores << " cores, " << ranks << " ranks";
    }
}

TEST(Binding, LeavesAloneWhoIsAloneOrBoundOrHasTooManyThreads) {
  EXPECT_THAT(share_of_cores({{0, 1}}, 0, 1), IsEmpty());
  EXPECT_THAT(share_of_cores({{0, 1}, {2, 3}}, 1, 1), IsEmpty());
  EXPECT_THAT(share_of_cores({{0, 1}, {0, 1}}, 1, 2), IsEmpty());
  EXPECT_THAT(share_of_cores({{0, 1}, {0, 1}, {0, 1}}, 1, 1), IsEmpty());
}

TEST(CommunicatingThread, KeepsToItsCoreAsLongAsItCommunicates) {
  const std::vector<int> before = allowed_cores();
  {
    const CommunicatingThread here(before.back());
    EXPECT_THAT(allowed_cores(), ElementsAre(before.back()));
  }
  EXPECT_EQ(allowed_cores(), before);
  {
    const CommunicatingThread anywhere(std::nullopt);
    EXPECT_EQ(allowed_cores(), before);
  }
  EXPECT_EQ(allowed_cores(), before);
}

TEST(RanksOnCores, CountsThoseThatMayUseOneOfMine) {
  EXPECT_EQ(ranks_on_cores_of({{0, 1}}, 0), 1);
  EXPECT_EQ(ranks_on_cores_of({{0, 1}, {0, 1}, {0, 1}}, 2), 3);
  EXPECT_EQ(ranks_on_cores_of({{0, 1}, {2, 3}, {1, 2}}, 0), 2);
  EXPECT_EQ(ranks_on_cores_of({{0, 1}, {2, 3}, {1, 2}}, 2), 3);
  EXPECT_EQ(ranks_on_cores_of({{}, {0}}, 0), 1) << "itself, whatever is known";
}

}  // namespace
}  // namespace taxon::launch
