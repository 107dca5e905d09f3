#include "comm/rows/ring.h"

#include <algorithm>
#include <array>

#include "comm/rows/segments.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

constexpr double kFactsBytes = 16;  // of comm::SizeHandshake

/// All members of a ring, segment after segment.  No two of them share a link.
class RingSteps {
 public:
  RingSteps(ScheduleEvaluator& evaluator, std::size_t bytes, DType type)
      : evaluator_(evaluator),
        type_(type),
        members_(static_cast<std::size_t>(evaluator.members())),
        segments_(comm::segments_for((bytes + members_ - 1) / members_)),
        window_(std::min(comm::Ring::kAhead, segments_)),
        piece_(static_cast<double>(bytes) / static_cast<double>(members_ * segments_)),
        arrived_(members_),
        left_(members_),
        done_(members_, std::vector<Duration>(window_)),
        last_(members_) {
    for (int member = 0; member < evaluator.members(); ++member)
      ways_.push_back(evaluator.way(member, (member + 1) % evaluator.members()));
  }

  CompletionTimes run(comm::Ring::Steps steps) {
    if (segments_ > 1) agree();
    const int summing = evaluator_.members() - 1;
    phase(std::min(steps.last, summing) - steps.first, true);
    phase(steps.last - std::max(steps.first, summing), false);
    return {last_, static_cast<double>(item_) / static_cast<double>(window_), {}, {}};
  }

 private:
  void agree() {
    for (std::size_t member = 0; member < members_; ++member)
      arrived_[(member + 1) % members_] = evaluator_.send(ways_[member], kFactsBytes, Duration(0)).there;
    last_ = arrived_;
  }

  void phase(int steps, bool sums) {
    Duration period{-1};
    for (int step = 0; step < steps; ++step) {
      const bool watch = evaluator_.is_steady() && step + 1 < steps;
      const std::vector<Duration> before = watch ? last_ : std::vector<Duration>();
      const ScheduleEvaluator::Snapshot used = watch ? evaluator_.snapshot() : ScheduleEvaluator::Snapshot();
      for (std::size_t segment = 0; segment < segments_; ++segment) item(sums);
      if (!watch) continue;
      // Two steps that took everybody equally long: so will all that follow.
      const Duration now = common_step(before);
      if (now >= Duration(0) && period >= Duration(0) && alike(now, period)) {
        skip(used, steps - step - 1, now);
        return;
      }
      period = now;
    }
  }

  /// The next segment at every member: sent when the one a window before is done, received, summed.
  void item(bool sums) {
    const std::size_t slot = item_ % window_;
    for (std::size_t member = 0; member < members_; ++member) {
      const ScheduleEvaluator::Sent sent = evaluator_.send(ways_[member], piece_, done_[member][slot]);
      left_[member] = sent.done;
      arrived_[(member + 1) % members_] = sent.there;
    }
    for (std::size_t member = 0; member < members_; ++member) {
      Duration at = std::max(arrived_[member], last_[member]);
      if (sums) at = evaluator_.sum(static_cast<int>(member), type_, piece_, 2, 1, at);
      last_[member] = done_[member][slot] = std::max(at, left_[member]);
    }
    ++item_;
  }

  /// What everybody's last step took; negative where that differs.
  Duration common_step(const std::vector<Duration>& before) const {
    Duration least = Duration::max(), most{0};
    for (std::size_t member = 0; member < members_; ++member) {
      least = std::min(least, last_[member] - before[member]);
      most = std::max(most, last_[member] - before[member]);
    }
    return alike(least, most) ? most : Duration(-1);
  }
  static bool alike(Duration a, Duration b) { return std::max(a, b) - std::min(a, b) <= a / 10'000; }

  void skip(const ScheduleEvaluator::Snapshot& used, int steps, Duration period) {
    evaluator_.repeat(used, steps, period);
    item_ += segments_ * static_cast<std::size_t>(steps);
    for (Duration& at : last_) at += period * steps;
    for (auto& window : done_)
      for (Duration& at : window) at += period * steps;
  }

  ScheduleEvaluator& evaluator_;
  DType type_;
  std::size_t members_, segments_, window_;
  double piece_;
  std::vector<ScheduleEvaluator::Way> ways_;
  std::vector<Duration> arrived_, left_;
  std::vector<std::vector<Duration>> done_;  // [member]: of the last segments
  std::vector<Duration> last_;
  std::size_t item_ = 0;
};

/// The same where several members share a link, so that only time tells who comes first: every member as far
/// as it can go, as comm::Ring::run().
class RingStory final : private ScheduleEvaluator::Story {
 public:
  RingStory(ScheduleEvaluator& evaluator, std::size_t bytes, DType type, comm::Ring::Steps steps)
      : evaluator_(evaluator), type_(type), nodes_(static_cast<std::size_t>(evaluator.members())) {
    const std::size_t members = nodes_.size();
    segments_ = comm::segments_for((bytes + members - 1) / members);
    window_ = std::min(comm::Ring::kAhead, segments_);
    piece_ = static_cast<double>(bytes) / static_cast<double>(members * segments_);
    items_ = segments_ * static_cast<std::size_t>(steps.last - steps.first);
    summed_ = segments_ * static_cast<std::size_t>(
                              std::max(0, std::min(steps.last, evaluator.members() - 1) - steps.first));
    for (int member = 0; member < evaluator.members(); ++member)
      nodes_[static_cast<std::size_t>(member)].way =
          evaluator.way(member, (member + 1) % evaluator.members());
  }

  CompletionTimes run() {
    for (std::size_t member = 0; member < nodes_.size(); ++member) {
      nodes_[member].came = segments_ > 1 ? -1 : 0;  // ranks' facts come first
      evaluator_.resume_at(Duration(0), static_cast<int>(member));
    }
    evaluator_.play(*this);
    CompletionTimes table;
    table.waits = static_cast<double>(items_) / static_cast<double>(window_);
    for (const Node& node : nodes_)
      table.ends.push_back(node.item == items_ ? node.end : ScheduleEvaluator::kNever);
    return table;
  }

 private:
  struct Node {
    ScheduleEvaluator::Way way;
    std::int64_t came = 0;
    std::size_t sent = 0, item = 0;
    bool summed = false, sleeping = true;
    std::array<Duration, comm::Ring::kAhead> left{};
    Duration end{0};
  };

  std::uint32_t next(std::size_t member) const {
    return static_cast<std::uint32_t>((member + 1) % nodes_.size());
  }
  void send(std::size_t member, Duration now) {
    Node& node = nodes_[member];
    node.left[node.sent++ % window_] = evaluator_.post(node.way, piece_, now, next(member));
  }

  void resumed(int member, Duration now) override {
    Node& node = nodes_[static_cast<std::size_t>(member)];
    node.sleeping = false;
    if (node.sent == 0) {
      if (segments_ > 1) evaluator_.post(node.way, kFactsBytes, now, next(static_cast<std::size_t>(member)));
      while (node.sent < std::min(window_, items_)) send(static_cast<std::size_t>(member), now);
    }
    go_on(static_cast<std::size_t>(member), now);
  }
  void arrived(std::uint32_t member, Duration now) override {
    ++nodes_[member].came;
    if (!nodes_[member].sleeping) go_on(member, now);
  }

  void go_on(std::size_t member, Duration now) {
    Node& node = nodes_[member];
    while (node.item < items_) {
      if (node.came <= static_cast<std::int64_t>(node.item)) return;
      if (node.item < summed_ && !std::exchange(node.summed, true) &&
          !reached(member, evaluator_.sum(static_cast<int>(member), type_, piece_, 2, 1, now), now))
        return;
      if (!reached(member, node.left[node.item % window_], now)) return;
      node.summed = false;
      ++node.item;
      if (node.sent < items_) send(member, now);
    }
    node.end = now;
  }
  bool reached(std::size_t member, Duration when, Duration now) {
    if (when <= now) return true;
    nodes_[member].sleeping = true;
    evaluator_.resume_at(when, static_cast<int>(member));
    return false;
  }

  ScheduleEvaluator& evaluator_;
  DType type_;
  std::size_t segments_ = 1, window_ = 1, items_ = 0, summed_ = 0;
  double piece_ = 0;
  std::vector<Node> nodes_;
};

/// True if several of the ring's messages pass one link.
bool shares_links(const ScheduleEvaluator& evaluator) {
  std::vector<std::int32_t> wires;
  for (int member = 0; member < evaluator.members(); ++member)
    for (std::int32_t wire : evaluator.way(member, (member + 1) % evaluator.members()).wires)
      if (wire >= 0) wires.push_back(wire);
  std::sort(wires.begin(), wires.end());
  return std::adjacent_find(wires.begin(), wires.end()) != wires.end();
}

CompletionTimes evaluate(ScheduleEvaluator& evaluator, std::size_t bytes, DType type,
                         comm::Ring::Steps steps) {
  if (shares_links(evaluator)) return RingStory(evaluator, bytes, type, steps).run();
  return RingSteps(evaluator, bytes, type).run(steps);
}

}  // namespace

CompletionTimes evaluate_ring_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return evaluate(evaluator, bytes, type, comm::Ring::both(evaluator.members()));
}
CompletionTimes evaluate_ring_reduce_scatter(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return evaluate(evaluator, bytes, type, comm::Ring::reduce(evaluator.members()));
}
CompletionTimes evaluate_ring_all_gather(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return evaluate(evaluator, bytes, type, comm::Ring::gather(evaluator.members()));
}

}  // namespace taxon::sim
