#pragma once

#include <array>
#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "sim/faults.h"
#include "sim/wiring.h"

namespace taxon::sim {

/// Goes through the steps of one use of a collective without coroutines and events: messages cross copies of
/// the cluster's links, and kernels take their turn on copies of the exchange streams, by the rules of
/// sim::Network and sim::VirtualDevice, as if nothing else were under way. Times count from the beginning.
/// Links serve in the order of the calls: a schedule (sim/schedules/) whose steps meet on links in an order
/// that it knows calls send() in that order; others post() and play().
class ScheduleEvaluator {
 public:
  /// A use of a link, or of a member's exchange stream.
  struct Use {
    std::uint32_t wire = 0;  // below links(): place in Wiring::links(); otherwise links() + rank
    std::uint64_t messages = 0;
    double bytes = 0;
    Duration busy{0};
    Duration stays{0};  // sum over the messages of how long each stood there
  };
  /// The way of a member's messages to another one.
  struct Way {
    std::array<std::int32_t, 4> wires{-1, -1, -1, -1};
    Duration overhead{0}, latency{0};
    std::size_t eager = 0;
    Rank from, to;
    int from_host = 0, to_host = 0;
  };
  struct Sent {
    Duration done;   // the payload may be overwritten
    Duration there;  // at the receiver
  };

  /// `faults` null: nothing ever fails.
  ScheduleEvaluator(const Wiring& wiring, Faults* faults);
  ScheduleEvaluator(const ScheduleEvaluator&) = delete;

  /// Starts over: these members, at this instant.
  void begin(const std::vector<Rank>& members, Instant now);

  int members() const { return static_cast<int>(members_->size()); }
  /// True if every message of one size between two members takes the same time whenever it is sent.
  bool is_steady() const { return faults_ == nullptr && !bursty_; }
  Way way(int from, int to) const;
  Sent send(const Way& way, double bytes, Duration at);
  /// What post() and resume_at() call, in the order of time.
  class Story {
   public:
    virtual void resumed(int member, Duration now) = 0;
    virtual void arrived(std::uint32_t message, Duration now) = 0;

   protected:
    ~Story() = default;
  };
  /// Like send(), inside of play(): the rest of the message's way follows when its time comes. `way` outlives
  /// it. Returns Sent::done.
  Duration post(const Way& way, double bytes, Duration now, std::uint32_t message);
  void resume_at(Duration when, int member) {
    events_.push({when, sequence_++, kResume, static_cast<std::uint32_t>(member)});
  }
  /// Until nothing is left to happen.
  void play(Story& story);

  /// A kernel of this cost on the member's exchange stream: its end.
  Duration work(int member, double flops, double bytes, Duration at);
  /// target := the sum of `sources` ranges of `bytes`, written `targets` times.
  Duration sum(int member, DType type, double bytes, int sources, int targets, Duration at) {
    return work(member, bytes / static_cast<double>(size_of(type)) * (sources - 1),
                bytes * (sources + targets), at);
  }

  /// What was used so far.
  std::vector<Use> uses() const;
  /// Who sent the first message that never arrives; none: all do.
  std::optional<Rank> cut_off() const { return cut_off_; }
  std::size_t links() const { return links_; }

  /// What the links and lanes had done at some time.
  struct Snapshot {
    std::vector<Use> uses;
  };
  Snapshot snapshot() const { return {uses()}; }
  /// What happened since `before` happens `count` times more, each `period` after the last.
  void repeat(const Snapshot& before, std::int64_t count, Duration period);

  static constexpr Duration kNever = kLongest;
  /// So many periods after `at`; kNever where that is too long.
  static Duration later(Duration at, Duration period, std::int64_t count);

 private:
  struct Wire {
    double ps_per_byte = 0;
    Duration burst{0};
    Duration paid{0}, free{0}, busy{0}, stays{0};  // as in Link
    double bytes = 0;
    std::uint64_t messages = 0;
  };
  struct Turn {
    Duration begin, end;
  };
  /// A message that has left its sender's end.
  struct Moving {
    const Way* way = nullptr;
    double bytes = 0;
    Duration first{0}, last{0};  // bytes are before the next hop, or at the end
    std::size_t hop = 1;
    std::uint32_t message = 0;
  };
  enum Kind : std::uint32_t { kResume, kHop, kThere };
  struct Event {
    Duration at;
    std::uint64_t sequence;
    Kind kind;
    std::uint32_t index;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  struct Departure {
    Duration done, first, last;
  };
  Departure depart(const Way& way, double bytes, Duration at);
  /// One hop; true if it was the last.
  bool pass(Moving& moving);
  Turn serve(std::int32_t wire, Duration at, double bytes, double factor, Duration overhead);
  Wire& touch(std::size_t wire);

  const Wiring& wiring_;
  Faults* faults_;
  std::unordered_map<const Link*, std::int32_t> places_;  // never iterated
  std::size_t links_;
  std::vector<Wire> wires_;
  std::vector<bool> touched_;
  std::vector<std::uint32_t> order_;  // of the first touch
  const std::vector<Rank>* members_ = nullptr;
  Instant now_{};
  bool bursty_ = false;
  std::optional<Rank> cut_off_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  std::vector<Moving> moving_;
  std::vector<std::uint32_t> free_;
};

}  // namespace taxon::sim
