#include "planner/cluster_fit.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace taxon::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One of `ranks` ranks of a host that may use half a core of the machine's two.
RankFigures rank_of(const std::string& host, const std::string& machine) {
  RankFigures rank;
  rank.host = host;
  rank.machine = machine;
  rank.cores = 2;
  rank.quota = 0.5;
  rank.period = 0.01;
  rank.alone = {.flops = 30e9, .sum_bandwidth = 4e9, .update_bandwidth = 5e9, .copy_bandwidth = 6e9};
  rank.together = 30e9;
  return rank;
}

LinkFigures link_between(int from, int to) {
  LinkFigures link;
  link.from = from;
  link.to = to;
  link.half_round_trip = 60e-6;
  link.interval = 10e-6;
  link.bandwidth = 100e6;
  link.both_ways = 101e6;
  link.burst = 130'000;
  link.buffered = 1'000'000;
  link.send_time = link.receive_time = 5e-6;
  link.send_speed = 1e9;
  link.receive_speed = 0.5e9;
  link.fragment = 60'000;
  return link;
}

void expect_close(double value, double expected) { EXPECT_NEAR(value, expected, 1e-3 * expected); }

TEST(ClusterFit, TakesAMessageApart) {
  const std::vector<RankFigures> ranks{rank_of("a", "x"), rank_of("b", "y")};
  const std::vector<LinkFigures> links{link_between(0, 1)};
  const plan::ClusterModel cluster = fit_cluster(ranks, links);
  EXPECT_THAT(plan::cluster_problems(cluster, 2), ElementsAre());
  ASSERT_EQ(cluster.hosts.size(), 1u);
  EXPECT_EQ(cluster.hosts[0].count, 2);
  const plan::LinkModel& link = cluster.hosts[0].network;
  // A piece of 60,000 bytes takes 60 us of the sender's core and 120 us of the receiver's, 5 us of them for
  // itself. Of the 10 us between small messages the processor has 5; the link has the others.
  expect_close(link.send_time, 5e-6);
  expect_close(link.send_speed, 60'000 / 55e-6);
  expect_close(link.receive_time, 5e-6);
  expect_close(link.receive_speed, 60'000 / 115e-6);
  expect_close(link.overhead, 5e-6);
  expect_close(link.latency, (60 - 5 - 5 - 5) * 1e-6);
  expect_close(link.bandwidth, 60'000 / (600e-6 - 5e-6));
  EXPECT_EQ(link.burst, 130'000);
  EXPECT_EQ(link.eager, 1'000'000);
  EXPECT_EQ(link.fragment, 60'000);
  EXPECT_TRUE(link.full_duplex);
}

TEST(ClusterFit, BytesCostWhatTheyCostWhileAllHostsTalk) {
  std::vector<RankFigures> ranks{rank_of("a", "x"), rank_of("b", "y")};
  // Alone 1 ns a byte to send and 2 ns to receive.
  for (const auto& [crowd, slower] : {std::pair{6e-9, 2.0}, std::pair{2e-9, 1.0}, std::pair{0.0, 1.0}}) {
    ranks[0].crowd = ranks[1].crowd = crowd;
    const plan::LinkModel link = fit_cluster(ranks, std::vector{link_between(0, 1)}).hosts[0].network;
    expect_close(link.send_time + 60'000 / link.send_speed, slower * 60e-6);
    expect_close(link.receive_time + 60'000 / link.receive_speed, slower * 120e-6);
  }
}

TEST(ClusterFit, ABucketThatNoiseExplainsIsNone) {
  LinkFigures link = link_between(0, 1);
  link.burst = 6'000;
  link.both_ways = 50e6;
  const plan::ClusterModel cluster =
      fit_cluster(std::vector{rank_of("a", "x"), rank_of("b", "y")}, std::vector{link});
  EXPECT_EQ(cluster.hosts[0].network.burst, 0);
  EXPECT_FALSE(cluster.hosts[0].network.full_duplex);
}

TEST(ClusterFit, WakingCostsAreNotTakenForMoreThanAPieceCosts) {
  LinkFigures link = link_between(0, 1);
  link.send_time = 90e-6;  // more than the 60 us that a piece of a stream takes
  const plan::ClusterModel cluster =
      fit_cluster(std::vector{rank_of("a", "x"), rank_of("b", "y")}, std::vector{link});
  const plan::LinkModel& fitted = cluster.hosts[0].network;
  expect_close(fitted.send_time + 60'000 / fitted.send_speed, 60e-6);
}

TEST(ClusterFit, HostsOfOneMachineShareItsCores) {
  std::vector<RankFigures> ranks(4, rank_of("", "x"));
  std::vector<LinkFigures> links;
  for (int i = 0; i < 4; ++i) {
    ranks[static_cast<std::size_t>(i)].host = std::string(1, static_cast<char>('a' + i));
    if (i > 0) links.push_back(link_between(i - 1, i));
  }
  plan::ClusterModel cluster = fit_cluster(ranks, links);
  EXPECT_THAT(plan::cluster_problems(cluster, 4), ElementsAre());
  ASSERT_EQ(cluster.machines.size(), 1u);
  EXPECT_EQ(cluster.machines[0].cores, 2);
  EXPECT_EQ(cluster.hosts[0].machine, cluster.machines[0].name);
  EXPECT_EQ(cluster.hosts[0].cores, 0.5);
  EXPECT_EQ(cluster.hosts[0].quota_period, 0.01);
  // All at once they reach four fifths: there are 1.6 cores for the 2 that they want.
  for (RankFigures& rank : ranks) rank.together = 24e9;
  expect_close(fit_cluster(ranks, links).machines[0].cores, 1.6);
  // A host that may use both has no more than there are.
  for (RankFigures& rank : ranks) rank.quota = 0;
  cluster = fit_cluster(ranks, links);
  EXPECT_THAT(plan::cluster_problems(cluster, 4), ElementsAre());
  EXPECT_EQ(cluster.hosts[0].cores, cluster.machines[0].cores);
}

TEST(ClusterFit, OfAQuotaCountsWhatHostsGetWhileAllComputeAtOnce) {
  std::vector<RankFigures> ranks;
  for (int i = 0; i < 4; ++i) ranks.push_back(rank_of(std::string(1, static_cast<char>('a' + i)), "x"));
  const auto cluster = [&] { return fit_cluster(ranks, std::vector{link_between(0, 1)}); };
  // 0.45 of the half that each may use, and as much less is multiplied: the two cores are there all the same.
  for (RankFigures& rank : ranks) rank.granted = 0.45, rank.together = 27e9;
  EXPECT_EQ(cluster().hosts[0].cores, 0.45);
  EXPECT_EQ(cluster().machines[0].cores, 2);
  // At once they reach less in the time that they get: there are no two cores for them.
  for (RankFigures& rank : ranks) rank.together = 20e9;
  expect_close(cluster().machines[0].cores, 4 * 0.5 * 20 / 30);
  // Who got more than a quota was stopped late.
  for (RankFigures& rank : ranks) rank.granted = 0.51;
  EXPECT_EQ(cluster().hosts[0].cores, 0.5);
  // Threads that want less than the quota say nothing of it.
  for (RankFigures& rank : ranks) rank.quota = 1.5, rank.granted = 0.9;
  EXPECT_EQ(cluster().hosts[0].cores, 1.5);
}

TEST(ClusterFit, RanksOfAHostShareItsQuota) {
  std::vector<RankFigures> ranks{rank_of("a", "x"), rank_of("a", "x"), rank_of("b", "x"), rank_of("b", "x")};
  for (RankFigures& rank : ranks) rank.granted = 0.22262;
  EXPECT_EQ(fit_cluster(ranks, {}).hosts[0].cores, 0.4452);
  // Alone each had all of it, at once half: the two cores are there.
  for (RankFigures& rank : ranks) rank.quota = 1, rank.granted = 0.5, rank.together = 15e9;
  EXPECT_EQ(fit_cluster(ranks, {}).machines[0].cores, 2);
  for (RankFigures& rank : ranks) rank.together = 12e9;
  expect_close(fit_cluster(ranks, {}).machines[0].cores, 1.6);
}

TEST(ClusterFit, MoreRanksThanCoresKeepThemAllBusy) {
  std::vector<RankFigures> ranks(4, rank_of("a", "x"));
  for (RankFigures& rank : ranks) rank.quota = 0, rank.together = 15e9;
  EXPECT_EQ(fit_cluster(ranks, {}).hosts[0].cores, 2);
}

TEST(ClusterFit, RanksOfAHostTalkInside) {
  std::vector<RankFigures> ranks(2, rank_of("a", "x"));
  for (RankFigures& rank : ranks) rank.quota = 0;
  LinkFigures link = link_between(0, 1);
  link.shares_memory = true;
  link.signal = 12e-6;
  const plan::ClusterModel cluster = fit_cluster(ranks, std::vector{link});
  EXPECT_THAT(plan::cluster_problems(cluster, 2), ElementsAre());
  ASSERT_EQ(cluster.hosts.size(), 1u);
  EXPECT_EQ(cluster.hosts[0].devices, 2);
  EXPECT_EQ(cluster.hosts[0].cores, 2);
  EXPECT_TRUE(cluster.hosts[0].shares_memory);
  EXPECT_TRUE(cluster.hosts[0].machine.empty());
  expect_close(cluster.hosts[0].inside.latency, (12 - 5 - 5) * 1e-6);
}

TEST(ClusterFit, DifferentHostsAreGroupsOfTheirOwn) {
  std::vector<RankFigures> ranks{rank_of("a", "x"), rank_of("b", "y"), rank_of("c", "z")};
  ranks[2].alone.flops = 90e9;
  const plan::ClusterModel cluster =
      fit_cluster(ranks, std::vector{link_between(0, 1), link_between(1, 2), link_between(0, 2)});
  EXPECT_THAT(plan::cluster_problems(cluster, 3), ElementsAre());
  ASSERT_EQ(cluster.hosts.size(), 2u);
  EXPECT_EQ(cluster.hosts[0].count, 2);
  // Half a core was there in the mean: at full speed one thread does twice as much.
  expect_close(cluster.hosts[1].device.flops, 2 * 90e9);
  expect_close(cluster.hosts[1].device.memory_bandwidth, 2 * 5e9);
}

TEST(ClusterFit, RanksShareACacheThatIsFasterThanMemory) {
  std::vector<RankFigures> ranks(2, rank_of("a", "x"));
  for (RankFigures& rank : ranks) rank.quota = 0;
  EXPECT_EQ(fit_cluster(ranks, {}).hosts[0].device.cache, 0);  // not known
  for (RankFigures& rank : ranks) rank.cache = 32 << 20;
  EXPECT_EQ(fit_cluster(ranks, {}).hosts[0].device.cache, 0);  // not measured
  for (RankFigures& rank : ranks) rank.alone.cache_bandwidth = 20e9, rank.alone.launch = 3e-5;
  const plan::DeviceModel device = fit_cluster(ranks, {}).hosts[0].device;
  EXPECT_EQ(device.cache, 8 << 20);
  expect_close(device.cache_bandwidth, 20e9);
  expect_close(device.launch, 3e-5);
}

TEST(ClusterFit, RanksThatGoRoundTheHostsCannotBeSaid) {
  const std::vector<RankFigures> ranks{rank_of("a", "x"), rank_of("b", "y"), rank_of("a", "x")};
  try {
    fit_cluster(ranks, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("rank 2"));
  }
}

}  // namespace
}  // namespace taxon::planner
