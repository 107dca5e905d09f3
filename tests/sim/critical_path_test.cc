#include "sim/critical_path.h"

#include <gmock/gmock.h>

#include "sim/world.h"
#include "support/clusters.h"

namespace taxon::sim {
namespace {

using std::chrono::microseconds;
using Kind = PathSegment::Kind;

tensor::Kernel kernel(const char* name, Duration time, std::vector<Duration> marks = {}) {
  tensor::Kernel made;
  made.name = name;
  made.cost.measured = time;
  made.body = [](tensor::Milestones&) {};
  made.marks = static_cast<int>(marks.size());
  made.mark_offsets = std::move(marks);
  return made;
}

task::Task<void> work(comm::Runtime* doors, const char* name, Duration time) {
  tensor::Kernel made = kernel(name, time);
  auto done = tensor::run(doors->device, doors->pending(), tensor::Stream::Compute, std::move(made));
  co_await done;
}

/// Rank 0 computes for 50 us and sends 1000 bytes, 500 us into a kernel of 800 us; rank 1 computes meanwhile
/// and, when it has them, again.
task::Task<void> relay(comm::Runtime* doors) {
  std::byte data[1000] = {};
  if (doors->rank() == Rank(0)) {
    auto first = work(doors, "prepare", microseconds(50));
    co_await first;
    tensor::Kernel backward = kernel("backward", microseconds(800), {microseconds(500)});
    tensor::KernelHandle job(doors->device, doors->pending(), tensor::Stream::Compute, std::move(backward));
    auto mark = job.at(0);
    co_await mark;
    net::SendOp send(doors->transport, Rank(1), {}, View(data, sizeof data), DType::UInt8);
    co_await send;
    auto end = job.finished();
    co_await end;
  } else {
    auto beside = work(doors, "beside", microseconds(300));
    co_await beside;
    net::RecvOp receive(doors->transport, Rank(0), {}, View(data, sizeof data), DType::UInt8);
    co_await receive;
    auto after = work(doors, "after", microseconds(70));
    co_await after;
  }
}

struct Piece {
  Kind kind;
  int rank;
  std::string name;
  Duration time;
  friend bool operator==(const Piece&, const Piece&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Piece& piece) {
    return out << static_cast<int>(piece.kind) << " on " << piece.rank << ' ' << piece.name << ' '
               << piece.time.count();
  }
};

std::vector<Piece> pieces(const ResourceTimeline& timeline, const World& world,
                          const std::vector<PathSegment>& path) {
  std::vector<Piece> list;
  for (const PathSegment& stretch : path) {
    std::string name;
    if (stretch.kind == Kind::Compute) name = timeline.name(stretch.name);
    if (stretch.kind == Kind::Link) name = world.links()[stretch.name].name;
    list.push_back({stretch.kind, stretch.rank, name, stretch.time()});
  }
  return list;
}

TEST(CriticalPath, GoesOverMarksMessagesAndKernels) {
  ResourceTimeline timeline;
  World world(test::separate_hosts(2), 2, {.timeline = &timeline});
  const RankBody body = [](comm::Runtime& doors) { return relay(&doors); };
  const Report report = world.run(body);
  ASSERT_FALSE(report.failure);
  const auto path = critical_path(timeline, 1, Instant(), report.ranks[1].end);
  // 2 us of overhead and 8 us of latency, then a microsecond for the bytes on the receiver's link.
  EXPECT_THAT(pieces(timeline, world, path),
              testing::ElementsAre(Piece{Kind::Compute, 0, "prepare", microseconds(50)},
                                   Piece{Kind::Compute, 0, "backward", microseconds(500)},
                                   Piece{Kind::Latency, 0, "", microseconds(10)},
                                   Piece{Kind::Link, 0, "host1 network in", microseconds(1)},
                                   Piece{Kind::Compute, 1, "after", microseconds(70)}));
  Duration sum{0};
  for (const PathSegment& stretch : path) sum += stretch.time();
  EXPECT_EQ(sum, report.ranks[1].end - Instant());
}

/// Both send 1000 bytes to rank 2 at once; the second message waits for the receiver's link.
task::Task<void> collide(comm::Runtime* doors) {
  std::byte data[1000] = {}, other[1000] = {};
  if (doors->rank() != Rank(2)) {
    net::SendOp send(doors->transport, Rank(2), {}, View(data, sizeof data), DType::UInt8);
    co_await send;
    co_return;
  }
  net::RecvOp first(doors->transport, Rank(0), {}, View(data, sizeof data), DType::UInt8);
  net::RecvOp second(doors->transport, Rank(1), {}, View(other, sizeof other), DType::UInt8);
  co_await first;
  co_await second;
}

TEST(CriticalPath, ShowsTheMessageThatALinkServedBefore) {
  ResourceTimeline timeline;
  World world(test::separate_hosts(3), 3, {.timeline = &timeline});
  const RankBody body = [](comm::Runtime& doors) { return collide(&doors); };
  const Report report = world.run(body);
  ASSERT_FALSE(report.failure);
  EXPECT_THAT(pieces(timeline, world, critical_path(timeline, 2, Instant(), report.ranks[2].end)),
              testing::ElementsAre(Piece{Kind::Latency, 0, "", microseconds(10)},
                                   Piece{Kind::Link, 0, "host2 network in", microseconds(1)},
                                   Piece{Kind::Link, 1, "host2 network in", microseconds(1)}));
}

TEST(CriticalPath, ATimelineForgetsTheOldestFirst) {
  ResourceTimeline timeline(4);
  for (int i = 0; i < 5; ++i) {
    ResourceTimeline::Service service;
    service.end = Instant(microseconds(i + 1));
    EXPECT_EQ(timeline.add(service), i);
  }
  EXPECT_EQ(timeline.services().size(), 4u);
  EXPECT_EQ(timeline.first_service(), 1);
  EXPECT_EQ(timeline.complete_from(), Instant(microseconds(1)));
  timeline.arrived(0, Instant());  // forgotten: nothing happens
}

}  // namespace
}  // namespace taxon::sim
