#include "sim/device.h"

#include <gmock/gmock.h>

#include "comm/collectives.h"
#include "sim/rows.h"
#include "sim/world.h"
#include "support/clusters.h"
#include "support/errors.h"
#include "task/scope.h"

namespace taxon::sim {
namespace {

using std::chrono::milliseconds;
using task::Task;
using tensor::Kernel;
using tensor::Stream;
using testing::ElementsAre;

/// 1 GFLOP/s and 1 GB/s.
plan::ClusterModel slow_host(int ranks, double cores = 0) {
  plan::ClusterModel cluster = test::one_host(ranks);
  cluster.hosts[0].device = {.flops = 1e9, .memory_bandwidth = 1e9};
  cluster.hosts[0].cores = cores;
  return cluster;
}

struct Load {
  Stream lane;
  double flops;
  std::size_t bytes = 0;
};
using Ends = std::vector<Duration>;

Task<void> work(comm::Runtime& doors, Load load, Ends& ends, std::size_t index) {
  Kernel kernel{"piece", {load.flops, load.bytes}, {}};
  auto done = tensor::run(doors.device, doors.pending(), load.lane, std::move(kernel));
  co_await done;
  ends[index] = doors.executor().now() - Instant();
}

/// When each load of each rank ends; all are started at 0.
std::vector<Ends> run(const plan::ClusterModel& cluster, const std::vector<std::vector<Load>>& ranks,
                      std::uint64_t seed = 0) {
  World world(cluster, static_cast<int>(ranks.size()), {.seed = seed});
  std::vector<Ends> ends;
  for (const auto& loads : ranks) ends.emplace_back(loads.size());
  Report report = world.run([&](comm::Runtime& doors) {
    auto all = [](comm::Runtime& doors, const std::vector<Load>& loads, Ends& ends) -> Task<void> {
      task::Scope scope(doors.pending());
      for (std::size_t i = 0; i < loads.size(); ++i) scope.spawn(work(doors, loads[i], ends, i));
      co_await scope.join();
    };
    auto rank = static_cast<std::size_t>(doors.rank().value());
    return all(doors, ranks[rank], ends[rank]);
  });
  EXPECT_FALSE(report.failure);
  return ends;
}

Task<void> copy_holding(comm::Runtime& doors, std::size_t held) {
  const net::Region region = doors.transport.allocate(held);
  Kernel kernel{"copy", {0, 8'000'000}, {}};
  auto done = tensor::run(doors.device, doors.pending(), Stream::Exchange, std::move(kernel));
  co_await done;
}

TEST(VirtualDevice, WhoFitsIntoCachesIsAsFastAsThose) {
  for (std::size_t held : {1000, 1001}) {
    plan::ClusterModel cluster = slow_host(1);
    cluster.hosts[0].device.cache = 1000;
    cluster.hosts[0].device.cache_bandwidth = 4e9;
    World world(cluster, 1, {});
    const Report report = world.run([held](comm::Runtime& doors) { return copy_holding(doors, held); });
    EXPECT_EQ(report.time, held <= 1000 ? milliseconds(2) : milliseconds(8));
  }
}

TEST(VirtualDevice, TheDearerOfArithmeticAndMemoryDecides) {
  auto ends = run(slow_host(1), {{{Stream::Compute, 3e6, 1000}, {Stream::Exchange, 3, 5'000'000}}});
  EXPECT_THAT(ends[0], ElementsAre(milliseconds(3), milliseconds(5)));
}

TEST(VirtualDevice, KernelsOfAnIdleLaneAreLaunched) {
  plan::ClusterModel cluster = slow_host(1);
  cluster.hosts[0].device.launch = 1e-3;
  auto ends =
      run(cluster,
          {{{Stream::Compute, 1e6}, {Stream::Compute, 2e6}, {Stream::Data, 1e6}, {Stream::Exchange, 1e6}}});
  EXPECT_THAT(ends[0], ElementsAre(milliseconds(2), milliseconds(4), milliseconds(2), milliseconds(1)));
}

TEST(VirtualDevice, KernelsOfALaneWaitForEachOther) {
  auto ends =
      run(slow_host(1),
          {{{Stream::Compute, 1e6}, {Stream::Compute, 2e6}, {Stream::Data, 1e6}, {Stream::Compute, 0}}});
  EXPECT_THAT(ends[0], ElementsAre(milliseconds(1), milliseconds(3), milliseconds(1), milliseconds(3)));
}

TEST(VirtualDevice, CoresAreShared) {
  // Two ranks of one core each on two cores: no contention, until a third wants one.
  EXPECT_THAT(run(slow_host(2, 2), {{{Stream::Compute, 6e6}}, {{Stream::Compute, 2e6}}})[0],
              ElementsAre(milliseconds(6)));
  auto ends =
      run(slow_host(2, 2), {{{Stream::Compute, 6e6}, {Stream::Exchange, 2e6}}, {{Stream::Compute, 2e6}}});
  // Three want a core each of two: 2/3 speed until 3 ms, when two of them are through; then alone.
  EXPECT_EQ(ends[0][1], milliseconds(3));
  EXPECT_EQ(ends[1][0], milliseconds(3));
  EXPECT_EQ(ends[0][0], milliseconds(7));
}

TEST(VirtualDevice, EmulatedHostsShareTheirMachine) {
  plan::ClusterModel cluster = test::separate_hosts(4);
  cluster.machines = {{"lab", 1.5}};
  cluster.hosts[0].machine = "lab";
  cluster.hosts[0].cores = 0.5;
  cluster.hosts[0].device = {.flops = 1e9, .memory_bandwidth = 1e9};
  std::vector<Load> load{{Stream::Compute, 3e6}};
  EXPECT_EQ(run(cluster, {load, load, load, {}})[0][0], milliseconds(3));
  EXPECT_EQ(run(cluster, {load, load, load, load})[3][0], milliseconds(4));
  // A host's own share is divided among its lanes.
  std::vector<Load> two{{Stream::Compute, 3e6}, {Stream::Exchange, 3e6}};
  EXPECT_EQ(run(cluster, {two, {}, {}, {}})[0][0], milliseconds(6));
}

TEST(VirtualDevice, StragglersTakeLonger) {
  plan::ClusterModel cluster = slow_host(2);
  cluster.stragglers = {{.rank = 1, .slowdown = 3, .at = 0.002}};
  std::vector<Load> loads{{Stream::Compute, 2e6}, {Stream::Compute, 2e6}};
  auto ends = run(cluster, {loads, loads});
  EXPECT_THAT(ends[0], ElementsAre(milliseconds(2), milliseconds(4)));
  EXPECT_THAT(ends[1], ElementsAre(milliseconds(2), milliseconds(8)));
}

/// The longest slowdown of the slowest device, for whom cores are modelled or not.
TEST(VirtualDevice, WhatOutlastsVirtualTimeIsSaidToDoSo) {
  for (double cores : {0.0, 0.25})
    for (auto carry : {Collectives::StepByStep, Collectives::Coarse}) {
      plan::ClusterModel cluster = test::separate_hosts(2);
      cluster.hosts[0].device = {.flops = 1e6, .memory_bandwidth = 1e3};
      cluster.hosts[0].network.bandwidth = 1e3;
      cluster.hosts[0].cores = cores;
      cluster.stragglers = {{.rank = 1, .slowdown = 1e9}};
      cluster.faults = {{.kind = plan::FaultKind::SlowLink, .host = "host0", .factor = 1e9}};
      World world(cluster, 2, {.fidelity = Fidelity::Timing, .collectives = carry});
      Ends ends(2);
      const Report report = world.run([&](comm::Runtime& doors) {
        auto both = [](comm::Runtime& doors, Ends& ends) -> Task<void> {
          auto sums = sum_steps(doors, 3, 400'000);
          co_await sums;
          auto kernel = work(doors, {Stream::Compute, 1e12}, ends, 0);
          co_await kernel;
        };
        return both(doors, ends);
      });
      EXPECT_EQ(test::kind_of(report.failure), ErrorKind::Usage);
      EXPECT_THAT(test::message_of(report.failure), testing::HasSubstr("outlasts virtual time"));
      EXPECT_FALSE(report.hang);
      for (const LinkUse& link : report.links) {
        EXPECT_GE(link.busy, Duration(0));
        EXPECT_LE(link.busy, kLongest);
      }
      for (const RankUse& rank : report.ranks) EXPECT_LE(rank.end, EventQueue::kEnd);
    }
}

TEST(VirtualDevice, AKernelThatOutlastsVirtualTimeEnds) {
  for (double cores : {0.0, 0.25}) {
    plan::ClusterModel cluster = slow_host(1, cores);
    cluster.stragglers = {{.rank = 0, .slowdown = 1e9}};
    World world(cluster, 1, {});
    Ends ends(1);
    const Report report = world.run([&](comm::Runtime& doors) {
      return work(doors, {Stream::Compute, 1e15}, ends, 0);
    });
    EXPECT_EQ(test::kind_of(report.failure), ErrorKind::Usage);
  }
}

TEST(VirtualDevice, RandomStragglersFollowTheSeed) {
  plan::ClusterModel cluster = slow_host(1);
  cluster.stragglers = {{.host = "host", .slowdown = 2, .probability = 0.5}};
  std::vector<Load> loads(40, {Stream::Compute, 1e6});
  auto last = [&](std::uint64_t seed) { return run(cluster, {loads}, seed)[0].back(); };
  EXPECT_EQ(last(1), last(1));
  EXPECT_GT(last(1), milliseconds(45));
  EXPECT_LT(last(1), milliseconds(75));
  EXPECT_TRUE(last(1) != last(2) || last(1) != last(3));
}

Task<void> marked(comm::Runtime& doors, std::vector<Duration>& times, bool& ran) {
  Kernel kernel{"backward", {5e6, 0}, [&ran](tensor::Milestones& marks) {
                  ran = true;
                  marks.reached(0);
                }};
  kernel.marks = 3;
  kernel.mark_offsets = {milliseconds(4), milliseconds(1)};  // the third comes at the end
  tensor::KernelHandle job(doors.device, doors.pending(), Stream::Compute, std::move(kernel));
  for (int index : {1, 0, 2}) {
    auto reached = job.at(index);
    co_await reached;
    times.push_back(doors.executor().now() - Instant());
  }
  auto end = job.finished();
  co_await end;
}

TEST(VirtualDevice, MarksFireAtTheirOffsets) {
  for (Fidelity fidelity : {Fidelity::Exact, Fidelity::Timing})
    for (double cores : {0.0, 1.0}) {
      World world(slow_host(1, cores), 1, {.fidelity = fidelity});
      std::vector<Duration> times;
      bool ran = false;
      Report report = world.run([&](comm::Runtime& doors) { return marked(doors, times, ran); });
      EXPECT_FALSE(report.failure);
      EXPECT_THAT(times, ElementsAre(milliseconds(1), milliseconds(4), milliseconds(5)));
      EXPECT_EQ(ran, fidelity == Fidelity::Exact);
      EXPECT_EQ(report.ranks[0].compute, milliseconds(5));
    }
}

Task<void> measured(comm::Runtime& doors) {
  Kernel kernel{"forward", {1e12, 1 << 30, milliseconds(7)}, {}};
  auto done = tensor::run(doors.device, doors.pending(), Stream::Compute, std::move(kernel));
  co_await done;
}

TEST(VirtualDevice, AMeasuredTimeTakesThePlaceOfTheFigures) {
  World world(slow_host(1), 1);
  EXPECT_EQ(world.run([](comm::Runtime& doors) { return measured(doors); }).time, milliseconds(7));
}

Task<void> fails(comm::Runtime& doors, bool& caught) {
  Kernel kernel{"bad", {1e6, 0}, [](tensor::Milestones&) { throw Error(ErrorKind::Data, "no"); }};
  std::exception_ptr error;
  try {
    auto done = tensor::run(doors.device, doors.pending(), Stream::Compute, std::move(kernel));
    co_await done;
  } catch (const Error&) {
    caught = true;
  }
  EXPECT_EQ(doors.executor().now() - Instant(), milliseconds(1));
}

TEST(VirtualDevice, ABodysErrorComesAtItsEnd) {
  World world(slow_host(1), 1);
  bool caught = false;
  world.run([&](comm::Runtime& doors) { return fails(doors, caught); });
  EXPECT_TRUE(caught);
}

/// A small sum in real memory, which later decisions depend on.
Task<void> agree(comm::Runtime& doors, std::vector<double>& sums) {
  std::vector<Rank> members{Rank(0), Rank(1), Rank(2)};
  comm::Communicator group(doors, "world", members);
  for (const char* row : {"ring", "tree"}) {
    double mine = doors.rank().value() + 1;
    comm::Call call{as_view(std::span(&mine, 1)), DType::Float64};
    auto sum = comm::find_row(net::Operation::AllReduce, row).run(group, call);
    co_await sum;
    sums.push_back(mine);
  }
}

TEST(VirtualDevice, SmallAgreementsAreRealInTiming) {
  World world(test::separate_hosts(3), 3, {.fidelity = Fidelity::Timing});
  std::vector<double> sums;
  world.run([&](comm::Runtime& doors) { return agree(doors, sums); });
  EXPECT_EQ(sums, std::vector<double>(6, 6.0));
}

}  // namespace
}  // namespace taxon::sim
