#include "planner/link_probe.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "comm/in_flight.h"
#include "comm/rows/segments.h"
#include "planner/measured.h"

namespace taxon::planner {
namespace {

using comm::kSegmentBytes;
using task::Task;

constexpr std::size_t kAhead = 8;   // segments that keep a link busy
constexpr std::size_t kTrial = 16;  // segments
constexpr std::size_t kSmall = 8;   // bytes
constexpr std::size_t kDrops = 64, kDropBytes = 8 << 10;
constexpr int kPauses = 5;
constexpr double kPauseSeconds = 0.15;
constexpr double kMostBuffered = 4 << 20;

/// Processor time of the thread that communicates, which is the one that calls this.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What one end does in a stream of `count` messages of `size` bytes, and how it went.
struct Stream {
  std::size_t count = 0, size = kSegmentBytes;
  bool sends = false, receives = false;
  std::vector<double> arrivals;  // when each message was there
  double processor = 0;          // time of this end
  double rate() const {
    return static_cast<double>((arrivals.size() - 1) * size) / (arrivals.back() - arrivals.front());
  }
};

/// One end of the way. Both ends call the same functions in the same order.
class Pair {
 public:
  Pair(comm::Communicator& group, int first, int second)
      : transport_(group.runtime().transport),
        leads_(group.rank() == first),
        peer_(group.global(leads_ ? second : first)),
        tag_(
            group.begin(net::Operation::User, static_cast<std::uint32_t>(first * group.size() + second + 1))),
        memory_(2 * kAhead * kSegmentBytes) {
    figures_.from = group.global(first).value();
    figures_.to = group.global(second).value();
  }

  Task<LinkFigures> run(double seconds);

 private:
  double now() const { return to_seconds(transport_.executor().now() - Instant()); }
  net::Tag next_tag() {
    ++tag_.round;
    return tag_;
  }
  View buffer(std::size_t place, std::size_t size) {
    return View(memory_.data() + place * kSegmentBytes, size);
  }
  /// The other end's number, as it gives it, and this one's to it.
  Task<double> trade(double mine);
  Task<void> bounce(int rounds);
  Task<void> stream(Stream* stream);
  Task<void> measure_round_trip();
  Task<void> measure_signal();
  Task<void> measure_interval();
  Task<void> measure_streams(double seconds);
  Task<void> measure_burst();
  Task<void> measure_buffered();

  net::Transport& transport_;
  const bool leads_;
  const Rank peer_;
  net::Tag tag_;
  std::vector<std::byte> memory_;
  LinkFigures figures_;
};

Task<double> Pair::trade(double mine) {
  const net::Tag tag = next_tag();
  double theirs = 0;
  net::RecvOp receive(transport_, peer_, tag, as_view(std::span(&theirs, 1)), DType::Float64);
  net::SendOp send(transport_, peer_, tag, as_view(std::span(&mine, 1)), DType::Float64);
  co_await send;
  co_await receive;
  co_return theirs;
}

Task<void> Pair::bounce(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const net::Tag there = next_tag(), back = next_tag();
    if (leads_) {
      net::SendOp ping(transport_, peer_, there, buffer(0, kSmall), DType::UInt8);
      co_await ping;
    } else {
      net::RecvOp ping(transport_, peer_, there, buffer(1, kSmall), DType::UInt8);
      co_await ping;
    }
    if (leads_) {
      net::RecvOp pong(transport_, peer_, back, buffer(1, kSmall), DType::UInt8);
      co_await pong;
    } else {
      net::SendOp pong(transport_, peer_, back, buffer(0, kSmall), DType::UInt8);
      co_await pong;
    }
  }
}

/// Ends when all that this end sent has arrived.
Task<void> Pair::stream(Stream* stream) {
  const net::Tag tag = next_tag();
  comm::InFlight<net::SendOp> sends(kAhead);
  comm::InFlight<net::RecvOp> receives(kAhead);
  auto start = [&](std::size_t i) {
    if (i >= stream->count) return;
    net::Tag own = tag;
    own.sequence += static_cast<std::uint32_t>(i) + 1;
    if (stream->receives)
      receives.start(i, transport_, peer_, own, buffer(kAhead + i % kAhead, stream->size), DType::UInt8);
    if (stream->sends) sends.start(i, transport_, peer_, own, buffer(i % kAhead, stream->size), DType::UInt8);
  };
  const double before = thread_seconds();
  for (std::size_t i = 0; i < kAhead; ++i) start(i);
  for (std::size_t i = 0; i < stream->count; ++i) {
    if (stream->receives) {
      net::RecvOp* receive = receives.at(i);
      co_await *receive;
      stream->arrivals.push_back(now());
    }
    if (stream->sends) {
      net::SendOp* send = sends.at(i);
      co_await *send;
    }
    start(i + kAhead);
  }
  co_await trade(0);
  stream->processor = thread_seconds() - before;
}

Task<void> Pair::measure_round_trip() {
  constexpr int kWarm = 20, kRounds = 300;
  co_await bounce(kWarm);
  const double begin = now(), before = thread_seconds();
  co_await bounce(kRounds);
  figures_.half_round_trip = (now() - begin) / (2 * kRounds);
  // Each end sends and receives once a round: their costs can't be told apart here.
  figures_.send_time = figures_.receive_time = (thread_seconds() - before) / (2 * kRounds);
}

Task<void> Pair::measure_signal() {
  constexpr int kRounds = 300;
  const std::uint32_t own = transport_.allot_signals(1);
  const double index = co_await trade(own);
  const auto theirs = static_cast<std::uint32_t>(index);
  const double begin = now();
  for (std::uint64_t i = 1; i <= kRounds; ++i) {
    if (leads_) {
      net::PutOp ping(transport_, {}, nullptr, 0, {peer_, theirs}, i);
      co_await ping;
    }
    net::AwaitSignalOp heard(transport_, peer_, tag_, own, i);
    co_await heard;
    if (!leads_) {
      net::PutOp pong(transport_, {}, nullptr, 0, {peer_, theirs}, i);
      co_await pong;
    }
  }
  figures_.signal = (now() - begin) / (2 * kRounds);
}

Task<void> Pair::measure_interval() {
  Stream small{.count = 2000, .size = kSmall, .sends = leads_, .receives = !leads_};
  co_await stream(&small);
  auto told = trade(leads_ ? 0 : static_cast<double>(kSmall) / small.rate());
  const double theirs = co_await told;
  figures_.interval = leads_ ? theirs : static_cast<double>(kSmall) / small.rate();
}

Task<void> Pair::measure_streams(double seconds) {
  Stream trial{.count = kTrial, .sends = leads_, .receives = !leads_};
  co_await stream(&trial);
  auto told = trade(leads_ ? 0 : std::max(32.0, seconds * trial.rate() / kSegmentBytes));
  double count = co_await told;
  if (!leads_) count = std::max(32.0, seconds * trial.rate() / kSegmentBytes);
  Stream one{.count = static_cast<std::size_t>(count), .sends = leads_, .receives = !leads_};
  co_await stream(&one);
  const double bytes = static_cast<double>(one.count * kSegmentBytes);
  auto rate = trade(leads_ ? 0 : one.rate());
  const double theirs = co_await rate;
  figures_.bandwidth = leads_ ? theirs : one.rate();
  const double other = co_await trade(one.processor);
  figures_.send_speed = bytes / (leads_ ? one.processor : other);
  figures_.receive_speed = bytes / (leads_ ? other : one.processor);
  Stream both{.count = one.count, .sends = true, .receives = true};
  co_await stream(&both);
  const double theirs_back = co_await trade(both.rate());
  figures_.both_ways = (both.rate() + theirs_back) / 2;
}

/// After a pause: how far what has arrived is ahead of the rate that it settles at.
Task<void> Pair::measure_burst() {
  std::vector<double> ahead;
  for (int pause = 0; pause < kPauses; ++pause) {
    task::SleepUntil sleep(transport_.executor(), transport_.pending(),
                           transport_.executor().now() + from_seconds(kPauseSeconds));
    co_await sleep;
    Stream drops{.count = kDrops, .size = kDropBytes, .sends = leads_, .receives = !leads_};
    co_await stream(&drops);
    double found = 0;
    if (!leads_) {
      const std::vector<double>& at = drops.arrivals;
      const double expected = (at.back() - at.front()) * std::min(figures_.bandwidth, figures_.both_ways);
      found = static_cast<double>((kDrops - 1) * kDropBytes) - expected;
    }
    const double theirs = co_await trade(found);
    ahead.push_back(std::max(0.0, leads_ ? theirs : found));
  }
  figures_.burst = measured(std::move(ahead)).median;
}

/// How much of what is sent in one go is taken over at once.
Task<void> Pair::measure_buffered() {
  Stream all{.count = static_cast<std::size_t>(kMostBuffered) / kSegmentBytes};
  const net::Tag tag = next_tag();
  double done = 0;
  comm::InFlight<net::SendOp> sends(all.count);
  comm::InFlight<net::RecvOp> receives(all.count);
  std::vector<std::byte> place(all.count * kSegmentBytes);
  for (std::size_t i = 0; i < all.count; ++i) {
    net::Tag own = tag;
    own.sequence += static_cast<std::uint32_t>(i) + 1;
    const View bytes(place.data() + i * kSegmentBytes, kSegmentBytes);
    if (!leads_) receives.start(i, transport_, peer_, own, bytes, DType::UInt8);
    if (!leads_) continue;
    sends.start(i, transport_, peer_, own, bytes, DType::UInt8);
    if (sends.at(i)->done() && done == static_cast<double>(i * kSegmentBytes)) done += kSegmentBytes;
  }
  for (std::size_t i = 0; i < all.count; ++i) {
    net::Op* own = leads_ ? static_cast<net::Op*>(sends.at(i)) : receives.at(i);
    co_await *own;
  }
  const double theirs = co_await trade(done);
  figures_.buffered = leads_ ? done : theirs;
}

Task<LinkFigures> Pair::run(double seconds) {
  const net::Path path = transport_.path(peer_);
  figures_.shares_memory = path.shared_memory;
  co_await measure_round_trip();
  if (figures_.shares_memory) {
    co_await measure_signal();
  }
  co_await measure_interval();
  co_await measure_streams(seconds);
  if (!figures_.shares_memory) {
    co_await measure_burst();
  }
  co_await measure_buffered();
  figures_.fragment = static_cast<double>(transport_.path(peer_).fragment);
  co_return figures_;
}

/// One member's place in a ring.
class Crowd {
 public:
  explicit Crowd(comm::Communicator& group)
      : group_(group),
        next_(group.global((group.rank() + 1) % group.size())),
        before_(group.global((group.rank() + group.size() - 1) % group.size())),
        tag_(group.begin(net::Operation::User, 0)),
        out_(kPlaces * kSegmentBytes, std::byte{1}),
        in_(kPlaces * kSegmentBytes, std::byte{1}) {}

  /// Of a byte sent and one received.
  Task<double> run(std::size_t count) {
    comm::InFlight<net::SendOp> sends(kAhead);
    comm::InFlight<net::RecvOp> receives(kAhead);
    net::Transport& transport = group_.runtime().transport;
    auto start = [&](std::size_t i) {
      if (i >= count) return;
      net::Tag tag = tag_;
      tag.sequence += static_cast<std::uint32_t>(i) + 1;
      const std::size_t place = i % kPlaces * kSegmentBytes;
      receives.start(i, transport, before_, tag, View(in_.data() + place, kSegmentBytes), DType::UInt8);
      sends.start(i, transport, next_, tag, View(out_.data() + place, kSegmentBytes), DType::UInt8);
    };
    const double begun = thread_seconds();
    for (std::size_t i = 0; i < kAhead; ++i) start(i);
    for (std::size_t i = 0; i < count; ++i) {
      net::RecvOp* receive = receives.at(i);
      co_await *receive;
      net::SendOp* send = sends.at(i);
      co_await *send;
      start(i + kAhead);
    }
    co_return (thread_seconds() - begun) / static_cast<double>(count * kSegmentBytes);
  }

 private:
  static constexpr std::size_t kPlaces = 256;  // 32 MiB each way

  comm::Communicator& group_;
  const Rank next_, before_;
  const net::Tag tag_;
  std::vector<std::byte> out_, in_;
};

}  // namespace

Task<double> probe_crowd(comm::Communicator* group, double bandwidth, double seconds) {
  constexpr double kFewest = 64, kMost = 2048;
  Crowd crowd(*group);
  co_return co_await crowd.run(static_cast<std::size_t>(
      std::clamp(seconds * bandwidth / static_cast<double>(kSegmentBytes), kFewest, kMost)));
}

Task<LinkFigures> probe_link(comm::Communicator* group, int first, int second, double seconds) {
  if (group->rank() != first && group->rank() != second) co_return LinkFigures{};
  Pair pair(*group, first, second);
  co_return co_await pair.run(seconds);
}

}  // namespace taxon::planner
