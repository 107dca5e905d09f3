#include "sim/coarse.h"

#include <gmock/gmock.h>

#include <bit>

#include "sim/rows.h"
#include "sim/world.h"
#include "support/clusters.h"
#include "support/errors.h"
#include "support/runtimes.h"
#include "support/virtual_ranks.h"
#include "task/scope.h"

namespace taxon::sim {
namespace {

using comm::CollectiveRow;
using std::chrono::milliseconds;
using task::Task;
using test::kind_of;
using test::message_of;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Schedules, EveryRowHasOne) {
  for (const CollectiveRow& row : comm::collective_table()) {
    const CoarseSchedule* schedule = find_schedule(row);
    ASSERT_NE(schedule, nullptr) << row.name;
    EXPECT_EQ(test::row_name(row), [&] {
      std::string label = schedule->label;
      std::replace(label.begin(), label.end(), ' ', '_');
      return label;
    }());
  }
  EXPECT_EQ(schedule_table().size(), comm::collective_table().size());
}

// -- results

class EveryCoarseRow : public testing::TestWithParam<const CollectiveRow*> {
 protected:
  static bool needs_memory() {
    return GetParam()->applies({2, 4, true}) && !GetParam()->applies({2, 4, false});
  }
};
INSTANTIATE_TEST_SUITE_P(Rows, EveryCoarseRow, testing::ValuesIn(test::all_rows()),
                         [](const auto& info) { return test::row_name(*info.param); });

TEST_P(EveryCoarseRow, GivesTheBitsOfItsSteps) {
  for (int members : {1, 2, 3, 4, 6, 7, 11, 16})
    for (DType type : {DType::Float32, DType::BFloat16})
      for (std::size_t length : {0, 1, 17, 4099}) {
        const bool share = needs_memory();
        if (!GetParam()->applies({members, length * size_of(type), share})) continue;
        const test::Case c{GetParam(), type, length, test::Values::Random};
        SCOPED_TRACE(test::describe(c, members));
        Bytes expected(static_cast<std::size_t>(members)), coarse(expected);
        test::run_runtimes(members, [&](comm::Runtime& doors) { return use_row(doors, c, expected); },
                           {.share_memory = share});
        World world(share ? test::one_host(members) : test::separate_hosts(members), members,
                    {.collectives = Collectives::Coarse});
        Report report = world.run([&](comm::Runtime& doors) { return use_row(doors, c, coarse); });
        EXPECT_EQ(message_of(report.failure), "");
        EXPECT_EQ(coarse, expected);
        EXPECT_EQ(report.messages, 0u);
      }
}

// -- times

/// One use, or several at once, of a row over all ranks.
struct Scene {
  const CollectiveRow* row;
  std::vector<std::size_t> bytes;
  std::vector<double> late;  // [rank]: seconds; empty: all come at once
};

Task<void> use_unit(comm::Communicator* group, const CollectiveRow* row, comm::Call call, double* end) {
  auto done = row->run(*group, call);
  co_await done;
  *end = std::max(*end, to_seconds(group->runtime().executor().now() - Instant()));
}

Task<void> play(comm::Runtime& doors, const Scene* scene, std::vector<double>* ends) {
  comm::Communicator group(doors, "world", test::Member::all_of(doors.world_size()));
  auto known = group.establish();
  co_await known;
  std::size_t largest = 4;
  for (std::size_t bytes : scene->bytes) largest = std::max(largest, bytes);
  std::vector<net::Region> regions;
  for (std::size_t unit = 0; unit < scene->bytes.size(); ++unit) {
    regions.push_back(doors.transport.allocate(largest));
    auto shared = group.share(regions.back());
    co_await shared;
  }
  const auto rank = static_cast<std::size_t>(doors.rank().value());
  const double start = 1 + (scene->late.empty() ? 0 : scene->late[rank]);
  // The first use of a row that shares memory opens a channel, which Coarse takes no time for.
  for (int use = 0; use < 2; ++use) {
    task::SleepUntil ready(doors.executor(), doors.pending(), Instant(from_seconds(start + 10 * use)));
    co_await ready;
    ends->assign(scene->bytes.size(), 0);
    task::Scope uses(doors.pending());
    for (std::uint32_t unit = 0; unit < scene->bytes.size(); ++unit) {
      comm::Call call{regions[unit].bytes().slice(0, scene->bytes[unit]), DType::Float32, unit};
      uses.spawn(use_unit(&group, scene->row, call, &(*ends)[unit]));
    }
    co_await uses.join();
  }
}

struct Played {
  std::vector<double> ends;  // [unit], from when the first member comes
  Report report;
};

Played run_scene(const plan::ClusterModel& cluster, int ranks, const Scene& scene, Collectives collectives) {
  std::vector<std::vector<double>> all(static_cast<std::size_t>(ranks));
  World world(cluster, ranks, {.fidelity = Fidelity::Timing, .collectives = collectives});
  Played played;
  played.report = world.run([&](comm::Runtime& doors) {
    return play(doors, &scene, &all[static_cast<std::size_t>(doors.rank().value())]);
  });
  EXPECT_EQ(message_of(played.report.failure), "");
  played.ends.assign(scene.bytes.size(), 0);
  for (const auto& ends : all)
    for (std::size_t unit = 0; unit < ends.size(); ++unit)
      played.ends[unit] = std::max(played.ends[unit], ends[unit] - 11);
  return played;
}

void expect_same_time(const plan::ClusterModel& cluster, int ranks, const Scene& scene, double tolerance) {
  const Played steps = run_scene(cluster, ranks, scene, Collectives::StepByStep);
  const Played coarse = run_scene(cluster, ranks, scene, Collectives::Coarse);
  for (std::size_t unit = 0; unit < scene.bytes.size(); ++unit)
    EXPECT_NEAR(coarse.ends[unit], steps.ends[unit], tolerance * steps.ends[unit] + 1e-9)
        << cluster.name << ", " << ranks << " ranks, " << scene.bytes[unit] << " bytes";
}

plan::ClusterModel busy_hosts(std::string name, int hosts, int devices) {
  plan::HostModel host;
  host.count = hosts;
  host.devices = devices;
  host.device = {.flops = 1e11, .memory_bandwidth = 3e10};
  host.inside = {.latency = 2e-6, .overhead = 1e-6, .bandwidth = 2e10, .per_rank = true, .eager = 8192};
  host.network = {.latency = 2e-5, .overhead = 5e-6, .bandwidth = 1.2e9, .eager = 8192};
  return {.name = std::move(name), .hosts = {host}};
}

std::vector<plan::ClusterModel> clusters() {
  plan::ClusterModel flat = busy_hosts("flat", 40, 1), dense = busy_hosts("dense", 5, 8),
                     memory = busy_hosts("shared memory", 10, 4), leaves = busy_hosts("leaves", 40, 1);
  memory.hosts[0].inside.per_rank = false;
  leaves.network_switch = {.hosts_per_leaf = 8, .oversubscription = 3};
  return {flat, dense, memory, leaves};
}

TEST_P(EveryCoarseRow, TakesTheTimeOfItsSteps) {
  for (const plan::ClusterModel& cluster : clusters())
    for (int ranks : {2, 3, 8, 21, 40})
      for (std::size_t bytes : {4u, 6000u, 150'000u, 5'000'000u}) {
        const bool share = needs_memory();
        if (share && ranks > cluster.hosts[0].devices) continue;
        if (!GetParam()->applies({ranks, bytes, share})) continue;
        // Where messages come at one time, it is chance which goes first: between ranks that share a link,
        // and between folding and the first exchange.
        const bool folds = GetParam()->name == "halving_doubling" && !std::has_single_bit(unsigned(ranks));
        const double tolerance = folds ? 0.15 : cluster.hosts[0].devices > 1 ? 0.08 : 0.05;
        expect_same_time(cluster, ranks, {GetParam(), {bytes}, {}}, tolerance);
      }
}

TEST(Coarse, ASlowLinkSlowsWhatPassesIt) {
  plan::ClusterModel cluster = busy_hosts("slow link", 12, 1);
  cluster.faults = {{.kind = plan::FaultKind::SlowLink, .host = "host5", .factor = 7}};
  for (const char* row : {"ring", "halving_doubling", "tree"})
    expect_same_time(cluster, 12, {&comm::find_row(net::Operation::AllReduce, row), {400'000}, {}}, 0.05);
}

TEST(Coarse, BeginsWhenTheLastOneComesWhomItNeeds) {
  const plan::ClusterModel cluster = busy_hosts("flat", 16, 1);
  for (const CollectiveRow* row : test::all_rows()) {
    if (!row->applies({16, 400'000, false})) continue;
    SCOPED_TRACE(test::row_name(*row));
    for (std::size_t late : {0u, 1u, 6u, 15u}) {
      Scene scene{row, {400'000}, std::vector<double>(16)};
      scene.late[late] = 0.02;  // most take less
      expect_same_time(cluster, 16, scene, 0.15);
    }
    Scene scattered{row, {400'000}, {}};
    for (int rank = 0; rank < 16; ++rank) scattered.late.push_back(1e-4 * (rank * 7 % 16));
    expect_same_time(cluster, 16, scattered, 0.15);
  }
}

TEST(Coarse, SeveralShareLinksLikeQueues) {
  const plan::ClusterModel flat = busy_hosts("flat", 24, 1);
  const auto& ring = comm::find_row(net::Operation::AllReduce, "ring");
  const auto& halving = comm::find_row(net::Operation::AllReduce, "halving_doubling");
  expect_same_time(flat, 24, {&ring, {4'000'000, 4'000'000, 4'000'000}, {}}, 0.05);
  expect_same_time(flat, 24, {&ring, {16'000'000, 2'000'000, 300'000}, {}}, 0.05);
  expect_same_time(flat, 16, {&halving, {16'000'000, 2'000'000, 300'000}, {}}, 0.05);
}

TEST(Coarse, SeveralShareTheSlowestOfUnequalLinks) {
  plan::ClusterModel cluster = busy_hosts("unequal", 3, 1);
  cluster.hosts.push_back(busy_hosts("slow", 1, 1).hosts[0]);
  cluster.hosts[1].name = "slow";
  cluster.hosts[1].network.bandwidth /= 10;
  const auto& ring = comm::find_row(net::Operation::AllReduce, "ring");
  // Coarse shares from the beginning to the end: what ends first in Timing ends a little later here.
  for (std::size_t rings : {1u, 2u, 4u, 8u})
    expect_same_time(cluster, 4, {&ring, std::vector<std::size_t>(rings, 4'000'000), {}}, 0.1);
}

TEST(Coarse, CountsWhatPassesLinksAndLanes) {
  const plan::ClusterModel cluster = busy_hosts("dense", 3, 4);
  for (const CollectiveRow* row : test::all_rows()) {
    if (!row->applies({12, 600'000, false})) continue;
    SCOPED_TRACE(test::row_name(*row));
    const Scene scene{row, {600'000}, {}};
    const Played steps = run_scene(cluster, 12, scene, Collectives::StepByStep);
    const Played coarse = run_scene(cluster, 12, scene, Collectives::Coarse);
    for (std::size_t link = 0; link < steps.report.links.size(); ++link) {
      const LinkUse &exact = steps.report.links[link], &rough = coarse.report.links[link];
      EXPECT_EQ(rough.messages, exact.messages) << exact.name;
      EXPECT_NEAR(static_cast<double>(rough.bytes), static_cast<double>(exact.bytes), 2000) << exact.name;
      EXPECT_NEAR(to_seconds(rough.busy), to_seconds(exact.busy), 0.01 * to_seconds(exact.busy) + 2e-6)
          << exact.name;
    }
    for (std::size_t rank = 0; rank < 12; ++rank)
      EXPECT_NEAR(to_seconds(coarse.report.ranks[rank].exchange),
                  to_seconds(steps.report.ranks[rank].exchange),
                  0.01 * to_seconds(steps.report.ranks[rank].exchange) + 1e-9);
  }
}

TEST(Coarse, AThousandRanksTakeFewEvents) {
  World world(busy_hosts("large", 128, 8), 1024,
              {.fidelity = Fidelity::Timing, .collectives = Collectives::Coarse});
  const Scene scene{&comm::find_row(net::Operation::AllReduce, "ring"), {100'000'000}, {}};
  std::vector<std::vector<double>> ends(1024);
  Report report = world.run([&](comm::Runtime& doors) {
    return play(doors, &scene, &ends[static_cast<std::size_t>(doors.rank().value())]);
  });
  EXPECT_EQ(message_of(report.failure), "");
  EXPECT_LT(report.events, 10'000u);
}

TEST(Coarse, RunsOfOneSeedAreTheSame) {
  plan::ClusterModel cluster = test::delayed(busy_hosts("flat", 9, 1), 1e-3);
  auto run = [&](std::uint64_t seed) {
    World world(cluster, 9, {.collectives = Collectives::Coarse, .seed = seed});
    const Scene scene{&comm::find_row(net::Operation::AllReduce, "tree"), {1'000'000, 30'000}, {}};
    std::vector<std::vector<double>> ends(9);
    return world.run([&](comm::Runtime& doors) {
      return play(doors, &scene, &ends[static_cast<std::size_t>(doors.rank().value())]);
    });
  };
  const Report first = run(3), again = run(3);
  EXPECT_EQ(message_of(first.failure), "");
  EXPECT_EQ(first.trace, again.trace);
  EXPECT_EQ(first.time, again.time);
  EXPECT_NE(first.trace, run(4).trace);
}

// -- who waits for whom, and failures

/// The root spreads something, and the others come only when they hear that it is through.
Task<void> root_first(comm::Runtime& doors, int* heard) {
  test::Member member(doors, 4000);
  comm::Call call{member.arena.bytes(), DType::Float32};
  const net::Tag tag{.group = 1};
  const auto& spread = comm::find_row(net::Operation::Broadcast, "tree");
  if (doors.rank() == Rank(0)) {
    auto done = spread.run(member.group, call);
    co_await done;
    for (int rank = 1; rank < doors.world_size(); ++rank) {
      net::SendOp go(doors.transport, Rank(rank), tag, ConstView(), DType::UInt8);
      co_await go;
    }
    co_return;
  }
  net::RecvOp go(doors.transport, Rank(0), tag, View(), DType::UInt8);
  co_await go;
  ++*heard;
  auto done = spread.run(member.group, call);
  co_await done;
}

TEST(Coarse, ABroadcastsRootWaitsForNobody) {
  int heard = 0;
  World world(test::separate_hosts(6), 6, {.collectives = Collectives::Coarse});
  Report report = world.run([&](comm::Runtime& doors) { return root_first(doors, &heard); });
  EXPECT_EQ(message_of(report.failure), "");
  EXPECT_EQ(heard, 5);
}

Task<void> forgetful(comm::Runtime& doors) {
  auto steps = sum_steps(doors, doors.rank() == Rank(2) ? 1 : 2, 4000);
  co_await steps;
}

TEST(Coarse, ARunThatCannotFinishNamesWhoDidNotCome) {
  World world(test::separate_hosts(4), 4, {.collectives = Collectives::Coarse});
  Report report = world.run([](comm::Runtime& doors) { return forgetful(doors); });
  ASSERT_TRUE(report.hang);
  EXPECT_THAT(report.hang->culprits, ElementsAre(Rank(2)));
  EXPECT_EQ(kind_of(report.failure), ErrorKind::Deadline);
  const std::string text = message_of(report.failure);
  EXPECT_THAT(text, HasSubstr("rank 2 holds up the others"));
  EXPECT_THAT(text, HasSubstr("rank 3 waits for rank 2 in all_reduce, unit 3, use 1"));
  EXPECT_THAT(text, HasSubstr("rank 2 has left the job"));
}

TEST(Coarse, ALinkThatStaysCutIsAHang) {
  plan::ClusterModel cluster = test::separate_hosts(3);
  cluster.faults = {{.kind = plan::FaultKind::CutLink, .host = "host1", .peer = "host2", .at = 1e-6}};
  World world(cluster, 3, {.collectives = Collectives::Coarse});
  Report report = world.run([](comm::Runtime& doors) { return sum_steps(doors, 2, 3000); });
  ASSERT_TRUE(report.hang);
  EXPECT_THAT(message_of(report.failure), HasSubstr("waits for rank 1 in all_reduce"));
}

TEST(Coarse, AKilledRankReachesAllOthers) {
  // Before, in and after a sum of 6 ms.
  for (double at : {1e-6, 0.0021, 0.0051, 0.0149}) {
    plan::ClusterModel cluster = test::separate_hosts(5);
    cluster.detection = 0.25;
    cluster.faults = {{.kind = plan::FaultKind::Kill, .rank = 3, .at = at}};
    World world(cluster, 5, {.collectives = Collectives::Coarse});
    Report report = world.run([](comm::Runtime& doors) { return sum_steps(doors, 100, 4'000'000); });
    EXPECT_FALSE(report.hang);
    EXPECT_EQ(report.first_culprit, Rank(3));
    EXPECT_TRUE(report.ranks[3].killed);
    for (std::size_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(kind_of(report.ranks[rank].error), ErrorKind::PeerLost) << at << ", " << rank;
      EXPECT_THAT(message_of(report.ranks[rank].error), HasSubstr("rank 3"));
      if (rank != 3) {
        EXPECT_GE(report.ranks[rank].end, Instant(from_seconds(at + 0.25)));
      }
    }
  }
}

Task<void> disagree(comm::Runtime& doors, bool type) {
  test::Member member(doors, 4000);
  const bool odd = doors.rank() == Rank(1);
  comm::Call call{member.arena.bytes().slice(0, odd && !type ? 3996 : 4000),
                  odd && type ? DType::BFloat16 : DType::Float32, 7};
  auto sum = comm::find_row(net::Operation::AllReduce, "tree").run(member.group, call);
  co_await sum;
}

TEST(Coarse, RanksThatDisagreeAreNamed) {
  for (bool type : {false, true}) {
    World world(test::separate_hosts(3), 3, {.collectives = Collectives::Coarse});
    Report report = world.run([&](comm::Runtime& doors) { return disagree(doors, type); });
    EXPECT_EQ(kind_of(report.failure), ErrorKind::Mismatch);
    EXPECT_THAT(message_of(report.failure), HasSubstr("Ranks disagree in all_reduce, unit 7"));
    EXPECT_THAT(message_of(report.failure), HasSubstr("rank 1 with"));
  }
}

}  // namespace
}  // namespace taxon::sim
