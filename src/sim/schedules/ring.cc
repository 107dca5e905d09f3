#include "comm/rows/ring.h"

#include <algorithm>

#include "comm/rows/segments.h"
#include "sim/schedules/ring_story.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

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
    for (Duration& at : last_) at = ScheduleEvaluator::later(at, period, steps);
    for (auto& window : done_)
      for (Duration& at : window) at = ScheduleEvaluator::later(at, period, steps);
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
  if (shares_links(evaluator)) {
    std::vector<std::vector<RingLeg>> legs;
    for (int member = 0; member < evaluator.members(); ++member)
      legs.push_back({RingLeg((member + 1) % evaluator.members(), evaluator.members(), bytes, steps)});
    return RingStory(evaluator, type, {std::move(legs)}).run();
  }
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
