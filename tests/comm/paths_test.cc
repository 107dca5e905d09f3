#include "comm/paths.h"

#include <gtest/gtest.h>

#include "net/loopback/loopback.h"
#include "support/passing_transport.h"
#include "task/poll_loop.h"

namespace taxon::comm {
namespace {

/// Ranks below `inside` share this one's host.
class TwoWays final : public test::PassingTransport {
 public:
  TwoWays(net::Transport& inner, int inside) : PassingTransport(inner), inside_(inside) {}
  net::Path path(Rank peer) const override {
    return {peer.value() < inside_ ? "shared memory (sysv)" : "tcp eth0"};
  }

 private:
  int inside_;
};

std::string paths(int inside, const std::vector<Rank>& ranks) {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, 1);
  return describe_paths(TwoWays(world.transport(Rank(0)), inside), ranks);
}

TEST(Paths, AreNamedByPeerWhereTheyDiffer) {
  std::vector<Rank> ranks;
  for (int rank : {0, 1, 2, 3, 5}) ranks.emplace_back(rank);
  EXPECT_EQ(paths(8, ranks), "shared memory (sysv)");
  EXPECT_EQ(paths(1, ranks), "tcp eth0");
  EXPECT_EQ(paths(2, ranks), "shared memory (sysv) to rank 1; tcp eth0 to ranks 2 to 3, 5");
  EXPECT_EQ(paths(2, {Rank(0)}), "");
}

}  // namespace
}  // namespace taxon::comm
