#include "sim/world.h"

#include <gmock/gmock.h>

#include "sim/faults.h"
#include "sim/rows.h"
#include "support/clusters.h"
#include "support/errors.h"
#include "support/runtimes.h"
#include "support/virtual_ranks.h"

namespace taxon::sim {
namespace {

using std::chrono::milliseconds;
using task::Task;
using test::Case;
using test::kind_of;
using test::message_of;
using test::separate_hosts;
using testing::ElementsAre;
using testing::HasSubstr;

Bytes over_loopback(const Case& c, int members, bool share) {
  Bytes results(static_cast<std::size_t>(members));
  test::run_runtimes(members, [&](comm::Runtime& doors) { return use_row(doors, c, results); },
                     {.share_memory = share});
  return results;
}

Bytes over_virtual(const Case& c, int members, const plan::ClusterModel& cluster, std::uint64_t seed) {
  Bytes results(static_cast<std::size_t>(members));
  World world(cluster, members, {.seed = seed});
  Report report = world.run([&](comm::Runtime& doors) { return use_row(doors, c, results); });
  EXPECT_EQ(message_of(report.failure), "");
  return results;
}

class EveryRow : public testing::TestWithParam<const comm::CollectiveRow*> {};
INSTANTIATE_TEST_SUITE_P(Rows, EveryRow, testing::ValuesIn(test::all_rows()),
                         [](const auto& info) { return test::row_name(*info.param); });

TEST_P(EveryRow, GivesTheBitsOfLoopback) {
  // Devices that take time, so that sums too may overtake each other.
  auto slow = [](plan::ClusterModel cluster) {
    cluster.hosts[0].device = {.flops = 1e9, .memory_bandwidth = 1e9};
    cluster.hosts[0].cores = 2;
    return cluster;
  };
  for (int members = 1; members <= 16; ++members)
    for (bool share : {true, false}) {
      const comm::Shape shape{members, 4, share};
      if (!GetParam()->applies(shape)) continue;
      const plan::ClusterModel cluster = slow(share ? test::one_host(members) : separate_hosts(members));
      for (std::size_t length : {1, 17, 4099}) {
        const Case c{GetParam(), DType::Float32, length, test::Values::Random};
        SCOPED_TRACE(test::describe(c, members));
        if (!GetParam()->applies({members, length * 4, share})) continue;
        const Bytes expected = over_loopback(c, members, share);
        EXPECT_EQ(over_virtual(c, members, cluster, 0), expected);
        for (std::uint64_t seed = 1; seed <= 3; ++seed)
          EXPECT_EQ(over_virtual(c, members, test::delayed(cluster, 50e-6), seed), expected) << seed;
      }
    }
}

TEST_P(EveryRow, GivesTheBitsOfLoopbackInManySegmentsUnderDelays) {
  const Case c{GetParam(), DType::Float32, (std::size_t{5} << 18) + 3, test::Values::Random};
  for (int members : {3, 4}) {
    const bool share = GetParam()->applies({members, c.length * 4, true}) &&
                       !GetParam()->applies({members, c.length * 4, false});
    if (!GetParam()->applies({members, c.length * 4, share})) continue;
    const plan::ClusterModel cluster = share ? test::one_host(members) : separate_hosts(members);
    const Bytes expected = over_loopback(c, members, share);
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      EXPECT_EQ(over_virtual(c, members, test::delayed(cluster, 2e-3), seed), expected) << seed;
  }
}

TEST(World, RunsOfOneSeedAreTheSame) {
  plan::ClusterModel cluster = test::delayed(separate_hosts(5));
  cluster.stragglers = {{.rank = 2, .slowdown = 4, .probability = 0.3}};
  cluster.hosts[0].device = {.flops = 1e9, .memory_bandwidth = 1e9};
  auto run = [&](std::uint64_t seed, Fidelity fidelity) {
    World world(cluster, 5, {.fidelity = fidelity, .seed = seed});
    return world.run([](comm::Runtime& doors) { return sum_steps(doors, 4, 400'000); });
  };
  Report first = run(7, Fidelity::Exact), again = run(7, Fidelity::Exact);
  EXPECT_EQ(first.trace, again.trace);
  EXPECT_EQ(first.time, again.time);
  EXPECT_EQ(first.events, again.events);
  EXPECT_NE(run(8, Fidelity::Exact).trace, first.trace);
  // Phantoms travel like real buffers.
  Report timing = run(7, Fidelity::Timing);
  EXPECT_EQ(timing.trace, first.trace);
  EXPECT_EQ(timing.time, first.time);
}

TEST(World, TimingTakesNoMemory) {
  constexpr std::size_t kBytes = std::size_t{64} << 30;  // 64 GiB at each of 4 ranks
  World world(separate_hosts(4), 4, {.fidelity = Fidelity::Timing});
  Report report = world.run([](comm::Runtime& doors) { return sum_steps(doors, 1, kBytes); });
  EXPECT_EQ(message_of(report.failure), "");
  EXPECT_GT(to_seconds(report.time), 6 * 16.0);  // 1 GB/s
}

TEST(World, MemoryIsTheDevices) {
  plan::ClusterModel cluster = separate_hosts(2);
  cluster.hosts[0].device.memory = 1 << 20;
  World world(cluster, 2, {.fidelity = Fidelity::Timing});
  Report report = world.run([](comm::Runtime& doors) { return sum_steps(doors, 1, (1 << 20) + 1); });
  EXPECT_THAT(message_of(report.failure), HasSubstr("its device has 1.0 MiB"));
}

/// Rank 2 leaves out its second use.
Task<void> leaves_one_out(comm::Runtime& doors) {
  auto steps = sum_steps(doors, doors.rank() == Rank(2) ? 1 : 2, 4000);
  co_await steps;
  if (doors.rank() == Rank(2)) {
    task::SleepUntil nap(doors.executor(), doors.pending(), doors.executor().now() + milliseconds(1));
    co_await nap;
  }
}

TEST(World, ARunThatCannotFinishSaysWhoWaitsForWhom) {
  World world(separate_hosts(4), 4);
  Report report = world.run([](comm::Runtime& doors) { return leaves_one_out(doors); });
  ASSERT_TRUE(report.hang);
  EXPECT_THAT(report.hang->culprits, ElementsAre(Rank(2)));
  EXPECT_EQ(report.first_culprit, Rank(2));
  EXPECT_EQ(kind_of(report.failure), ErrorKind::Deadline);
  const std::string text = message_of(report.failure);
  EXPECT_THAT(text, HasSubstr("rank 2 holds up the others"));
  EXPECT_THAT(text, HasSubstr("rank 3 waits for rank 2 in all_reduce, unit 3, use 1, round 0"));
  EXPECT_THAT(text, HasSubstr("rank 2 has left the job"));
  for (int rank : {0, 1, 3})
    EXPECT_EQ(kind_of(report.ranks[static_cast<std::size_t>(rank)].error), ErrorKind::Deadline);
  EXPECT_FALSE(report.ranks[2].error);
}

Task<void> poll_forever(comm::Runtime& doors) {
  for (;;) {
    task::SleepUntil nap(doors.executor(), doors.pending(), doors.executor().now() + milliseconds(1), "poll");
    co_await nap;
  }
}

TEST(World, ARunThatTakesTooLongIsStuck) {
  World world(separate_hosts(1), 1, {.limit = milliseconds(50)});
  Report report = world.run([](comm::Runtime& doors) { return poll_forever(doors); });
  EXPECT_TRUE(report.hang);
  EXPECT_EQ(report.time, milliseconds(50));
}

TEST(World, AKilledRankReachesAllOthers) {
  for (const char* row : {"ring", "tree", "direct"}) {
    const bool share = std::string(row) == "direct";
    plan::ClusterModel cluster = share ? test::one_host(5) : separate_hosts(5);
    cluster.hosts[0].device = {.flops = 1e9, .memory_bandwidth = 1e9};
    cluster.detection = 0.25;
    cluster.faults = {{.kind = plan::FaultKind::Kill, .rank = 3, .at = 0.0021}};
    World world(cluster, 5);
    auto body = [](comm::Runtime& doors, const char* name) -> Task<void> {
      test::Member member(doors, 400'000);
      auto met = member.meet();
      co_await met;
      for (int step = 0; step < 100; ++step) {
        comm::Call call{member.arena.bytes(), DType::Float32, 3};
        auto sum = comm::find_row(net::Operation::AllReduce, name).run(member.group, call);
        co_await sum;
      }
    };
    Report report = world.run([&](comm::Runtime& doors) { return body(doors, row); });
    EXPECT_FALSE(report.hang);
    EXPECT_EQ(report.first_culprit, Rank(3));
    EXPECT_TRUE(report.ranks[3].killed);
    for (std::size_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(kind_of(report.ranks[rank].error), ErrorKind::PeerLost) << row << rank;
      EXPECT_THAT(message_of(report.ranks[rank].error), HasSubstr("rank 3")) << row;
      if (rank != 3) {
        EXPECT_GE(report.ranks[rank].end, Instant(from_seconds(0.2521))) << row << rank;
      }
    }
  }
}

Task<void> one_fails(comm::Runtime& doors) {
  auto steps = sum_steps(doors, 3, 4000);
  co_await steps;
  if (doors.rank() == Rank(1)) throw Error(ErrorKind::Data, "images.idx is cut short");
  auto more = sum_steps(doors, 3, 4000);
  co_await more;
}

TEST(World, AFailureReachesAllOthers) {
  World world(separate_hosts(3), 3);
  Report report = world.run([](comm::Runtime& doors) { return one_fails(doors); });
  EXPECT_EQ(report.first_culprit, Rank(1));
  EXPECT_EQ(kind_of(report.failure), ErrorKind::Data);
  EXPECT_THAT(message_of(report.ranks[2].error), HasSubstr("images.idx is cut short"));
  EXPECT_FALSE(report.hang);
}

/// Rank 0 puts into a region that rank 1 has lost in the meantime by failing.
Task<void> put_after_failure(comm::Runtime& doors) {
  net::Tag tag{.operation = net::Operation::ShareRegions};
  std::vector<std::byte> packed(24);
  net::Region region = doors.transport.allocate(64);
  View bytes(packed.data(), packed.size());
  if (doors.rank() == Rank(1)) {
    packed = region.share().pack();
    net::SendOp send(doors.transport, Rank(0), tag, ConstView(packed.data(), packed.size()), DType::UInt8);
    co_await send;
    throw Error(ErrorKind::Data, "rank 1 fails");
  }
  net::RecvOp receive(doors.transport, Rank(1), tag, bytes, DType::UInt8);
  co_await receive;
  auto there = net::RemoteRegion::unpack(ConstView(packed.data(), packed.size()));
  net::PutOp put(doors.transport, region.bytes(), &there, 0, {Rank(1), 0}, 1);
  co_await put;
}

TEST(World, PutsToARankThatFailedGoNowhere) {
  World world(separate_hosts(2), 2);
  Report report = world.run([](comm::Runtime& doors) { return put_after_failure(doors); });
  EXPECT_EQ(report.first_culprit, Rank(1));
  EXPECT_EQ(report.messages, 2u);
}

TEST(Faults, ALinkIsWholeWhenTheLastOfTheCutsThatMeetHasEnded) {
  plan::ClusterModel cluster = separate_hosts(2);
  const auto cut = [](double at, double until) {
    return plan::FaultModel{.kind = plan::FaultKind::CutLink, .host = "host0", .at = at, .until = until};
  };
  cluster.faults = {cut(1.5, 3), cut(1, 2), cut(4, 5)};
  const Faults faults(cluster, 1);
  const auto at = [](double seconds) { return Instant(from_seconds(seconds)); };
  EXPECT_EQ(faults.cut_until(0, 1, at(1.2)), at(3));
  EXPECT_EQ(faults.cut_until(1, 0, at(2.5)), at(3));
  EXPECT_EQ(faults.cut_until(0, 1, at(3)), std::nullopt);
}

TEST(World, ACutLinkHoldsMessagesUntilItIsWhole) {
  plan::ClusterModel cluster = separate_hosts(3);
  auto time = [&] {
    World world(cluster, 3);
    Report report = world.run([](comm::Runtime& doors) { return sum_steps(doors, 1, 3000); });
    EXPECT_EQ(message_of(report.failure), "");
    return report.time;
  };
  const Duration whole = time();
  cluster.faults = {{.kind = plan::FaultKind::CutLink, .host = "host1", .until = 0.5}};
  EXPECT_GE(time(), milliseconds(500));
  EXPECT_LT(time(), milliseconds(500) + whole);
  cluster.faults[0].peer = "host0";  // a ring sends from 0 to 1
  EXPECT_GE(time(), milliseconds(500));
  cluster.faults[0] = {.kind = plan::FaultKind::SlowLink, .host = "host2", .factor = 50};
  EXPECT_GT(time(), whole);
}

TEST(World, ALinkThatStaysCutIsAHang) {
  plan::ClusterModel cluster = separate_hosts(3);
  cluster.faults = {{.kind = plan::FaultKind::CutLink, .host = "host1", .peer = "host2", .at = 1e-6}};
  World world(cluster, 3);
  Report report = world.run([](comm::Runtime& doors) { return sum_steps(doors, 2, 3000); });
  ASSERT_TRUE(report.hang);
  EXPECT_THAT(message_of(report.failure), HasSubstr("rank 2 waits for rank 1 in all_reduce"));
}

}  // namespace
}  // namespace taxon::sim
