// What messages and quotas cost processors, in closed form.
#include <gtest/gtest.h>

#include "net/transport.h"
#include "sim/machine.h"
#include "sim/world.h"
#include "support/clusters.h"
#include "task/scope.h"

namespace taxon::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using task::Task;

/// Notes when it is done.
class Timed final : public CoreWork {
 public:
  explicit Timed(EventQueue& queue) : queue_(queue) {}
  void reached() override { end = queue_.now() - Instant(); }
  Duration end{0};

 private:
  EventQueue& queue_;
};

void run_to_end(EventQueue& queue) {
  while (queue.step()) continue;
}

/// Half a core in periods of 10 ms.
CoreShare half_a_core(Duration phase = Duration(0)) { return {0.5, milliseconds(10), phase}; }

TEST(Quota, WorkStandsStillWhenThePeriodsShareIsUsedUp) {
  EventQueue queue;
  Machine machine(queue, 2);
  Timed work(queue);
  machine.run(work, machine.add_host(half_a_core()), 1, milliseconds(12));
  run_to_end(queue);
  EXPECT_EQ(work.end, milliseconds(22));  // 0 to 5, 10 to 15, 20 to 22
}

TEST(Quota, ThreadsUseItUpTogether) {
  EventQueue queue;
  Machine machine(queue, 2);
  const std::size_t host = machine.add_host(half_a_core());
  Timed first(queue), second(queue);
  machine.run(first, host, 1, milliseconds(2));
  machine.run(second, host, 1, milliseconds(4));
  run_to_end(queue);
  EXPECT_EQ(first.end, milliseconds(2));
  EXPECT_EQ(second.end, milliseconds(11));  // 3 ms are done when both have used 5
}

TEST(Quota, BeginsAtItsPhase) {
  EventQueue queue;
  Machine machine(queue, 2);
  Timed work(queue);
  machine.run(work, machine.add_host(half_a_core(milliseconds(4))), 1, milliseconds(6));
  run_to_end(queue);
  EXPECT_EQ(work.end, milliseconds(8));  // 0 to 2 of the period before, 4 to 8
}

TEST(Quota, IsNotSavedUp) {
  EventQueue queue;
  Machine machine(queue, 2);
  const std::size_t host = machine.add_host(half_a_core());
  Timed early(queue), late(queue);
  struct Start final : Action {
    std::function<void()> what;
    void happen(std::uint64_t) override { what(); }
  } start;
  start.what = [&] { machine.run(late, host, 1, milliseconds(6)); };
  machine.run(early, host, 1, milliseconds(1));
  queue.at(Instant(milliseconds(33)), start);
  run_to_end(queue);
  EXPECT_EQ(late.end, milliseconds(41));  // 33 to 38, 40 to 41
}

TEST(Quota, HostsOfABusyMachineUseTheirsUpLater) {
  EventQueue queue;
  Machine machine(queue, 1);
  Timed first(queue), second(queue);
  machine.run(first, machine.add_host(half_a_core()), 1, milliseconds(6));
  machine.run(second, machine.add_host(half_a_core()), 1, milliseconds(4));
  run_to_end(queue);
  EXPECT_EQ(second.end, milliseconds(8));  // both at half speed
  EXPECT_EQ(first.end, milliseconds(11));  // 5 ms are done at 9
}

// ------------------------------------------------------------------- messages
constexpr std::size_t kMessage = 100'000;  // 100 us at 1 GB/s

/// Between them 2 us + 100 us + 8 us a message; 3 us + 100 us of the sender's processor, 4 us + 50 us of the
/// receiver's.
plan::ClusterModel handling_hosts(std::int64_t fragment = 0) {
  plan::ClusterModel cluster = test::separate_hosts(2);
  plan::LinkModel& link = cluster.hosts[0].network;
  link.fragment = fragment;
  link.send_time = 3e-6;
  link.send_speed = 1e9;
  link.receive_time = 4e-6;
  link.receive_speed = 2e9;
  return cluster;
}

struct Moments {
  Duration sent{0}, received{0}, computed{0};
};

Task<void> compute(comm::Runtime& doors, double flops, Moments& times) {
  tensor::Kernel kernel{"compute", {flops, 0}, {}};
  auto done = tensor::run(doors.device, doors.pending(), tensor::Stream::Compute, std::move(kernel));
  co_await done;
  times.computed = doors.executor().now() - Instant();
}

/// Rank 0 sends to rank 1, which computes meanwhile.
Task<void> talk(comm::Runtime& doors, Moments& times, double flops) {
  if (doors.rank().value() == 0) {
    net::SendOp send(doors.transport, Rank(1), net::Tag{}, ConstView::phantom(kMessage), DType::UInt8);
    co_await send;
    times.sent = doors.executor().now() - Instant();
    co_return;
  }
  task::Scope beside(doors.pending());
  if (flops > 0) beside.spawn(compute(doors, flops, times));
  net::RecvOp receive(doors.transport, Rank(0), net::Tag{}, View::phantom(kMessage), DType::UInt8);
  co_await receive;
  times.received = doors.executor().now() - Instant();
  co_await beside.join();
}

Moments run(const plan::ClusterModel& cluster, double flops = 0, Report* report = nullptr) {
  World world(cluster, 2);
  Moments times;
  Report done = world.run([&](comm::Runtime& doors) { return talk(doors, times, flops); });
  EXPECT_FALSE(done.failure);
  if (report) *report = std::move(done);
  return times;
}

TEST(Handling, ComesBeforeTheLinkAndAfterIt) {
  Moments times = run(handling_hosts());
  EXPECT_EQ(times.sent, microseconds(103 + 102));
  EXPECT_EQ(times.received, microseconds(103 + 110 + 54));
}

TEST(Handling, OfPiecesRunsBesideTheLink) {
  Report report;
  Moments times = run(handling_hosts(kMessage / 2), 0, &report);
  // Sender: to 53 and 106; its link: to 105 and 158; there at 113 and 166; handled at 142 and 195.
  EXPECT_EQ(times.sent, microseconds(158));
  EXPECT_EQ(times.received, microseconds(195));
  EXPECT_EQ(report.messages, 1u);
  EXPECT_EQ(report.links[0].bytes, kMessage);
}

TEST(Handling, OfAnEagerSendEndsItOnTheSendersProcessor) {
  plan::ClusterModel cluster = handling_hosts(kMessage / 2);
  cluster.hosts[0].network.eager = kMessage;
  EXPECT_EQ(run(cluster).sent, microseconds(106));
}

TEST(Handling, SharesTheCoresWithCompute) {
  plan::ClusterModel cluster = handling_hosts();
  cluster.hosts[0].cores = 1;
  cluster.hosts[0].device.flops = 1e9;
  // The message is there at 213; from then on its handling and the kernel have half the core each.
  Moments times = run(cluster, 300e3);
  EXPECT_EQ(times.received, microseconds(213 + 2 * 54));
  EXPECT_EQ(times.computed, microseconds(354));
  // With a second core nobody waits.
  cluster.hosts[0].cores = 2;
  cluster.hosts[0].device.cores = 1;
  times = run(cluster, 300e3);
  EXPECT_EQ(times.received, microseconds(267));
  EXPECT_EQ(times.computed, microseconds(300));
}

TEST(Handling, IsTimeOfAWholeCore) {
  plan::ClusterModel cluster = handling_hosts();
  cluster.hosts[0].cores = 0.5;
  EXPECT_EQ(run(cluster).received, microseconds(2 * 103 + 110 + 2 * 54));
}

/// Rank 0 raises a signal of rank 1.
Task<void> signal(comm::Runtime& doors, Duration& seen) {
  if (doors.rank() == Rank(0)) {
    net::PutOp put(doors.transport, {}, nullptr, 0, {Rank(1), 0}, 1);
    co_await put;
    co_return;
  }
  net::AwaitSignalOp wait(doors.transport, Rank(0), net::Tag{}, 0, 1);
  co_await wait;
  seen = doors.executor().now() - Instant();
}

TEST(Handling, OfAPutInsideAHostIsItsSendersAlone) {
  plan::ClusterModel cluster = test::one_host(2);
  cluster.hosts[0].inside.send_time = 3e-6;
  cluster.hosts[0].inside.receive_time = 5e-3;
  World world(cluster, 2);
  Duration seen{0};
  EXPECT_FALSE(world.run([&](comm::Runtime& doors) { return signal(doors, seen); }).failure);
  EXPECT_EQ(seen, microseconds(3 + 1));
}

TEST(Handling, StandsStillWithoutQuota) {
  plan::ClusterModel cluster = handling_hosts();
  cluster.hosts[0].cores = 0.01;
  cluster.hosts[0].quota_period = 1e-3;  // 10 us of it a millisecond
  const Moments times = run(cluster);
  EXPECT_GE(times.received, milliseconds(9 + 5));
  EXPECT_LE(times.received, milliseconds(11 + 6));
}

}  // namespace
}  // namespace taxon::sim
