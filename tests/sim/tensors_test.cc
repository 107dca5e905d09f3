// Tensor channels where payloads are phantoms: the same code, and the time that the model gives.
#include <gmock/gmock.h>

#include "comm/tensors/dynamic.h"
#include "comm/tensors/static.h"
#include "sim/world.h"
#include "support/clusters.h"
#include "support/errors.h"

namespace taxon::sim {
namespace {

using comm::Integrity;
using comm::TensorShape;
using task::Task;

constexpr std::int64_t kElements = 4 << 20;  // 16 MiB
constexpr int kTensors = 10;
const comm::TensorOptions kOptions{.depth = 2, .integrity = Integrity::Checked};

enum class How { Static, InPlace, CopiedOut };

struct Seen {
  double seconds = 0;  // when the last tensor was released
  bool phantom = false;
  comm::TensorPath path{};
};

Task<void> send(comm::Communicator* group, comm::TensorArena* arena, How how) {
  const TensorShape shape = TensorShape::of(DType::Float32, {kElements});
  if (how == How::Static) {
    auto opening = comm::StaticSender::open(*group, {}, shape, kOptions);
    auto sender = co_await opening;
    for (int i = 0; i < kTensors; ++i) {
      auto sent = sender->send(ConstView::phantom(shape.bytes()));
      co_await sent;
    }
    auto closed = sender->close();
    co_await closed;
    co_return;
  }
  auto opening = comm::DynamicSender::open(*group, *arena, {}, kOptions);
  auto sender = co_await opening;
  for (int i = 0; i < kTensors; ++i) {
    auto allocating = arena->allocate(shape.bytes(), "phantom");
    comm::TensorBlock block = co_await allocating;
    auto sent = sender->send(std::move(block), shape);
    co_await sent;
  }
  auto closed = sender->close();
  co_await closed;
}

template <class Receiver>
Task<void> take(Receiver* receiver, comm::Runtime* doors, Seen* seen) {
  seen->path = receiver->path();
  for (int i = 0; i < kTensors; ++i) {
    auto receiving = receiver->receive();
    comm::ReceivedTensor tensor = co_await receiving;
    seen->phantom = tensor.bytes().is_phantom();
    auto released = receiver->release(std::move(tensor));
    co_await released;
  }
  seen->seconds = std::chrono::duration<double>(doors->executor().now().time_since_epoch()).count();
  auto closed = receiver->close();
  co_await closed;
}

Task<void> run_rank(comm::Runtime* doors, How how, Seen* seen) {
  comm::Communicator group(*doors, "tensors", {Rank(0), Rank(1)});
  comm::TensorArena arena(doors->transport, {.bytes = 64 << 20});
  if (group.rank() == 0) {
    auto sent = send(&group, &arena, how);
    co_await sent;
  } else if (how == How::Static) {
    auto opening =
        comm::StaticReceiver::open(group, arena, {}, TensorShape::of(DType::Float32, {kElements}), kOptions);
    auto receiver = co_await opening;
    auto taken = take(receiver.get(), doors, seen);
    co_await taken;
  } else {
    const auto read = how == How::InPlace ? comm::TensorRead::InPlace : comm::TensorRead::Copied;
    auto opening = comm::DynamicReceiver::open(group, arena, {}, kOptions, read);
    auto receiver = co_await opening;
    auto taken = take(receiver.get(), doors, seen);
    co_await taken;
  }
}

Seen seen_in(const plan::ClusterModel& cluster, How how) {
  Seen seen;
  World world(cluster, 2, {.fidelity = Fidelity::Timing});
  Report report = world.run([&](comm::Runtime& doors) { return run_rank(&doors, how, &seen); });
  EXPECT_EQ(test::message_of(report.failure), "");
  return seen;
}

constexpr double kBytes = 4.0 * kElements * kTensors;

TEST(PhantomTensors, AreWrittenAtTheSpeedOfTheLink) {
  const Seen inside = seen_in(test::one_host(2), How::Static);
  EXPECT_TRUE(inside.phantom);
  EXPECT_EQ(inside.path, comm::TensorPath::Written);
  EXPECT_NEAR(inside.seconds, kBytes / 10e9, 0.05 * kBytes / 10e9);
  const Seen between = seen_in(test::separate_hosts(2), How::Static);
  EXPECT_EQ(between.path, comm::TensorPath::Messages);
  EXPECT_NEAR(between.seconds, kBytes / 1e9, 0.05 * kBytes / 1e9);
}

TEST(PhantomTensors, ReadInPlaceDoNotTravel) {
  const Seen seen = seen_in(test::one_host(2), How::InPlace);
  EXPECT_TRUE(seen.phantom);
  EXPECT_EQ(seen.path, comm::TensorPath::ReadInPlace);
  EXPECT_LT(seen.seconds, 0.01 * kBytes / 10e9);
}

TEST(PhantomTensors, CopiedOutTakeTheReceiversMemory) {
  plan::ClusterModel cluster = test::one_host(2);
  cluster.hosts[0].device.memory_bandwidth = 5e9;
  const Seen seen = seen_in(cluster, How::CopiedOut);
  EXPECT_EQ(seen.path, comm::TensorPath::ReadCopied);
  EXPECT_NEAR(seen.seconds, 2 * kBytes / 5e9, 0.05 * kBytes / 5e9);
}

TEST(PhantomTensors, TravelAsMessagesBetweenHosts) {
  const Seen seen = seen_in(test::separate_hosts(2), How::InPlace);
  EXPECT_TRUE(seen.phantom);
  EXPECT_EQ(seen.path, comm::TensorPath::Messages);
  EXPECT_NEAR(seen.seconds, kBytes / 1e9, 0.05 * kBytes / 1e9);
}

}  // namespace
}  // namespace taxon::sim
