// Times of messages in closed form.
#include <gtest/gtest.h>

#include "comm/collectives.h"
#include "net/transport.h"
#include "sim/wiring.h"
#include "sim/world.h"
#include "support/clusters.h"
#include "tensor/arena.h"

namespace taxon::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;
using task::Task;
using test::separate_hosts;

constexpr std::size_t kSize = 100'000;  // 100 us at 1 GB/s

/// What one rank sends and receives; a phantom's bytes cost nothing to make.
struct Traffic {
  std::vector<Rank> to, from;
  std::size_t size = kSize;
};

struct Times {
  std::vector<std::vector<Duration>> received, sent;  // [rank][message]
};

Task<void> exchange(comm::Runtime& doors, const Traffic& traffic, Times& times) {
  auto rank = static_cast<std::size_t>(doors.rank().value());
  std::vector<std::unique_ptr<net::RecvOp>> receives;
  std::vector<std::unique_ptr<net::SendOp>> sends;
  for (Rank from : traffic.from)
    receives.push_back(std::make_unique<net::RecvOp>(doors.transport, from, net::Tag{},
                                                     View::phantom(traffic.size), DType::UInt8));
  for (Rank to : traffic.to)
    sends.push_back(std::make_unique<net::SendOp>(doors.transport, to, net::Tag{},
                                                  ConstView::phantom(traffic.size), DType::UInt8));
  for (auto& send : sends) {
    net::SendOp& one = *send;
    co_await one;
    times.sent[rank].push_back(doors.executor().now() - Instant());
  }
  for (auto& receive : receives) {
    net::RecvOp& one = *receive;
    co_await one;
    times.received[rank].push_back(doors.executor().now() - Instant());
  }
}

Times run(const plan::ClusterModel& cluster, const std::vector<Traffic>& ranks, Report* report = nullptr) {
  World world(cluster, static_cast<int>(ranks.size()));
  Times times{std::vector<std::vector<Duration>>(ranks.size()),
              std::vector<std::vector<Duration>>(ranks.size())};
  Report done = world.run([&](comm::Runtime& doors) {
    return exchange(doors, ranks[static_cast<std::size_t>(doors.rank().value())], times);
  });
  EXPECT_FALSE(done.failure);
  if (report) *report = std::move(done);
  return times;
}

TEST(Links, AMessagePaysOverheadLatencyAndBytes) {
  Report report;
  Times times = run(separate_hosts(2), {{.to = {Rank(1)}}, {.from = {Rank(0)}}}, &report);
  EXPECT_EQ(times.sent[0][0], microseconds(2 + 100));
  EXPECT_EQ(times.received[1][0], microseconds(2 + 100 + 8));
  EXPECT_EQ(report.time, microseconds(110));
  EXPECT_EQ(report.messages, 1u);
  ASSERT_EQ(report.links.size(), 4u);
  EXPECT_EQ(report.links[0].name, "host0 network out");
  EXPECT_EQ(report.links[0].bytes, kSize);
  EXPECT_EQ(report.links[0].busy, microseconds(102));
  EXPECT_EQ(report.links[3].name, "host1 network in");
  EXPECT_EQ(report.links[3].bytes, kSize);
}

TEST(Links, AreBusyWithWhatTheyHaveServed) {
  Link link("link", 1e9, 0, 0);
  for (int i = 0; i < 3; ++i) link.serve(Instant(), kSize);
  EXPECT_EQ(link.busy(Instant()), Duration(0));
  EXPECT_EQ(link.busy(Instant(microseconds(150))), microseconds(150));
  EXPECT_EQ(link.busy(Instant(microseconds(900))), microseconds(300));
}

TEST(Links, AnEmptyMessagePaysOverheadAndLatency) {
  Times times = run(separate_hosts(2), {{.to = {Rank(1)}, .size = 0}, {.from = {Rank(0)}, .size = 0}});
  EXPECT_EQ(times.received[1][0], microseconds(10));
}

TEST(Links, MessagesOfOneSenderTakeTurns) {
  Times times =
      run(separate_hosts(3), {{.to = {Rank(1), Rank(2)}}, {.from = {Rank(0)}}, {.from = {Rank(0)}}});
  EXPECT_EQ(times.received[1][0], microseconds(110));
  EXPECT_EQ(times.received[2][0], microseconds(212));
}

TEST(Links, MessagesToOneReceiverTakeTurnsWhenTheyArrive) {
  Times times = run(separate_hosts(3), {{.to = {Rank(2)}}, {.to = {Rank(2)}}, {.from = {Rank(0), Rank(1)}}});
  EXPECT_EQ(times.received[2][0], microseconds(110));
  EXPECT_EQ(times.received[2][1], microseconds(210));
  EXPECT_EQ(times.sent[1][0], microseconds(102));  // it waits at the receiver, not at its sender
}

TEST(Links, AMessageThatQueuesAtItsSenderDoesNotBlockTheReceiver) {
  // Rank 0's message to 2 waits behind its message to 1; rank 3's comes later and passes it.
  std::vector<Traffic> ranks{
      {.to = {Rank(1), Rank(2)}}, {.from = {Rank(0)}}, {.from = {Rank(0), Rank(3)}}, {.to = {Rank(2)}}};
  Times times = run(separate_hosts(4), ranks);
  EXPECT_EQ(times.received[2][0],
            microseconds(212));  // 0's: it did not wait for 3's, which was through at 110
}

TEST(Links, BothDirectionsAtOnceOrInTurns) {
  std::vector<Traffic> both{{.to = {Rank(1)}, .from = {Rank(1)}}, {.to = {Rank(0)}, .from = {Rank(0)}}};
  Times times = run(separate_hosts(2), both);
  EXPECT_EQ(times.received[0][0], microseconds(110));
  EXPECT_EQ(times.received[1][0], microseconds(110));
  plan::ClusterModel half = separate_hosts(2);
  half.hosts[0].network.full_duplex = false;
  times = run(half, both);
  EXPECT_EQ(times.received[0][0], microseconds(202));  // each end: out until 102, then in
}

TEST(Links, SmallSendsAreDoneAtOnce) {
  plan::ClusterModel cluster = separate_hosts(2);
  cluster.hosts[0].network.eager = kSize;
  Times times = run(cluster, {{.to = {Rank(1)}}, {.from = {Rank(0)}}});
  EXPECT_EQ(times.sent[0][0], Duration(0));
  EXPECT_EQ(times.received[1][0], microseconds(110));
}

TEST(Links, ATokenBucketLetsABurstThrough) {
  plan::ClusterModel cluster = separate_hosts(3);
  cluster.hosts[0].network.burst = kSize / 4;
  Times times = run(cluster, {{.to = {Rank(1)}}, {.from = {Rank(0)}}});
  EXPECT_EQ(times.received[1][0], microseconds(2 + 75 + 8));
  // A bucket that is empty fills at the link's rate; the switch's own end has one too.
  times = run(cluster, {{.to = {Rank(1), Rank(2)}}, {.from = {Rank(0)}}, {.from = {Rank(0)}}});
  EXPECT_EQ(times.received[2][0], microseconds(2 + 75 + 2 + 100 + 8));
  cluster.hosts[0].network.burst = 2 * kSize;
  times = run(cluster, {{.to = {Rank(1), Rank(2)}}, {.from = {Rank(0)}}, {.from = {Rank(0)}}});
  EXPECT_EQ(times.received[1][0], microseconds(2 + 8));
  EXPECT_EQ(times.received[2][0], microseconds(4 + 8));
}

TEST(Links, RanksOfAHostShareItsNetworkAndItsMemory) {
  plan::ClusterModel cluster = separate_hosts(2);
  cluster.hosts[0].devices = 2;
  cluster.hosts[0].inside = {.latency = 1e-6, .bandwidth = 10e9};
  std::vector<Traffic> ranks{{.to = {Rank(2)}}, {.to = {Rank(3)}}, {.from = {Rank(0)}}, {.from = {Rank(1)}}};
  Times times = run(cluster, ranks);
  EXPECT_EQ(times.received[2][0], microseconds(110));
  EXPECT_EQ(times.received[3][0], microseconds(212));
  std::vector<Traffic> inside{{.to = {Rank(1)}}, {.from = {Rank(0)}}, {}, {}};
  EXPECT_EQ(run(cluster, inside).received[1][0], microseconds(11));
  cluster.hosts[0].network.per_rank = true;
  EXPECT_EQ(run(cluster, ranks).received[3][0], microseconds(110));
}

TEST(Links, AnOversubscribedSwitchIsShared) {
  plan::ClusterModel cluster = separate_hosts(4);
  cluster.network_switch.oversubscription = 4;  // the switch carries what one host does
  std::vector<Traffic> ranks{{.to = {Rank(2)}}, {.to = {Rank(3)}}, {.from = {Rank(0)}}, {.from = {Rank(1)}}};
  Times times = run(cluster, ranks);
  EXPECT_EQ(times.received[2][0], microseconds(110));
  EXPECT_EQ(times.received[3][0], microseconds(210));
  cluster.network_switch = {.hosts_per_leaf = 2, .oversubscription = 2};  // 0 and 1 share an uplink of one
  EXPECT_EQ(run(cluster, ranks).received[3][0], microseconds(210));
  std::vector<Traffic> within{{.to = {Rank(1)}}, {.from = {Rank(0)}}, {.to = {Rank(3)}}, {.from = {Rank(2)}}};
  EXPECT_EQ(run(cluster, within).received[3][0], microseconds(110));
  cluster.network_switch = {.hosts_per_leaf = 4, .oversubscription = 4};  // one leaf: the switch itself
  EXPECT_EQ(run(cluster, ranks).received[3][0], microseconds(210));
}

TEST(Links, ASwitchIsThatOfAllHostsThatItJoins) {
  plan::ClusterModel cluster = separate_hosts(8);  // of which three run
  const std::vector<Traffic> ranks{{.to = {Rank(2)}}, {.to = {Rank(2)}}, {.from = {Rank(0), Rank(1)}}};
  const Times free = run(cluster, ranks);
  cluster.network_switch.oversubscription = 4;  // carries what two hosts do
  EXPECT_EQ(run(cluster, ranks).received[2], free.received[2]);
  cluster.network_switch = {.hosts_per_leaf = 2,
                            .oversubscription = 2};  // 2 is alone on its leaf's link of one
  EXPECT_EQ(run(cluster, ranks).received[2], free.received[2]);
}

TEST(Links, ASlowerReceiverDecides) {
  plan::ClusterModel cluster = separate_hosts(1);
  cluster.hosts.push_back(cluster.hosts[0]);
  cluster.hosts[1].name = "slow";
  cluster.hosts[1].network.bandwidth = 0.5e9;
  EXPECT_EQ(run(cluster, {{.to = {Rank(1)}}, {.from = {Rank(0)}}}).received[1][0], microseconds(210));
  EXPECT_EQ(run(cluster, {{.from = {Rank(1)}}, {.to = {Rank(0)}}}).received[0][0], microseconds(210));
}

Task<void> ring(comm::Runtime& doors, std::size_t bytes) {
  std::vector<Rank> members;
  for (int i = 0; i < doors.world_size(); ++i) members.emplace_back(i);
  comm::Communicator group(doors, "world", members);
  comm::Call call{View::phantom(bytes), DType::Float32};
  auto sum = comm::find_row(net::Operation::AllReduce, "ring").run(group, call);
  co_await sum;
}

TEST(Links, ARingAllReduceTakesItsClosedForm) {
  for (int n : {2, 3, 4, 8, 16}) {
    const std::size_t bytes = static_cast<std::size_t>(n) * 100'000;  // parts of one segment
    World world(separate_hosts(n), n, {.fidelity = Fidelity::Timing});
    Report report = world.run([&](comm::Runtime& doors) { return ring(doors, bytes); });
    EXPECT_FALSE(report.failure);
    EXPECT_EQ(report.time, 2 * (n - 1) * microseconds(10 + 100)) << n;
    EXPECT_EQ(report.messages, static_cast<std::uint64_t>(2 * (n - 1) * n));
  }
}

TEST(Links, SumsOfARingTakeTheDevicesTime) {
  plan::ClusterModel cluster = separate_hosts(4);
  cluster.hosts[0].device.memory_bandwidth = 30e9;  // a sum of 100 KB reads 200 KB and writes 100 KB: 10 us
  World world(cluster, 4, {.fidelity = Fidelity::Timing});
  Report report = world.run([&](comm::Runtime& doors) { return ring(doors, 400'000); });
  EXPECT_EQ(report.time, 6 * microseconds(110) + 3 * microseconds(10));
  EXPECT_EQ(report.ranks[2].exchange, microseconds(30));
}

}  // namespace
}  // namespace taxon::sim
