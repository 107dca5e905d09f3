#include <algorithm>
#include <bit>
#include <numeric>

#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

/// Collectives in memory that all members map: meetings, where everybody raises a signal at everybody, and
/// kernels between them (comm/channel.h, comm/rows/direct.h).
class DirectSteps {
 public:
  DirectSteps(ScheduleEvaluator& evaluator, std::size_t bytes, DType type)
      : evaluator_(evaluator),
        type_(type),
        bytes_(static_cast<double>(bytes)),
        members_(evaluator.members()),
        now_(static_cast<std::size_t>(members_)) {}

  DirectSteps& meet() {
    std::vector<Duration> left = now_;
    std::vector<int> order(now_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return at(a) < at(b); });
    for (int shift = 1; shift < members_; ++shift)
      for (int from : order) {
        const int to = (from + shift) % members_;
        const ScheduleEvaluator::Sent sent = evaluator_.send(evaluator_.way(from, to), 0, at(from));
        auto& until = left[static_cast<std::size_t>(to)];
        until = std::max(until, sent.there);
      }
    now_ = left;
    return *this;
  }
  /// Everybody sums `bytes` of all members into `targets` places.
  DirectSteps& sum(double bytes, int targets) {
    for (int member = 0; member < members_; ++member)
      at(member) = evaluator_.sum(member, type_, bytes, members_, targets, at(member));
    return *this;
  }
  /// Everybody moves so many bytes, read and written.
  DirectSteps& move(double bytes, int first = 0) {
    for (int member = first; member < members_; ++member)
      at(member) = evaluator_.work(member, 0, bytes, at(member));
    return *this;
  }
  /// The root raises everybody's signal, or all raise the root's.
  DirectSteps& from_root() {
    for (int to = 1; to < members_; ++to)
      at(to) = std::max(at(to), evaluator_.send(evaluator_.way(0, to), 0, at(0)).there);
    return *this;
  }
  DirectSteps& to_root() {
    for (int from = 1; from < members_; ++from)
      at(0) = std::max(at(0), evaluator_.send(evaluator_.way(from, 0), 0, at(from)).there);
    return *this;
  }

  double bytes() const { return bytes_; }
  double share() const { return bytes_ / members_; }
  int members() const { return members_; }
  const std::vector<Duration>& now() const { return now_; }

 private:
  Duration& at(int member) { return now_[static_cast<std::size_t>(member)]; }

  ScheduleEvaluator& evaluator_;
  DType type_;
  double bytes_;
  int members_;
  std::vector<Duration> now_;
};

/// Gathers of more members go to so many of them, and the rest is taken for more of the same.
constexpr int kGathered = 256;

}  // namespace

CompletionTimes evaluate_direct_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  DirectSteps steps(evaluator, bytes, type);
  return {steps.meet().sum(steps.share(), steps.members()).meet().now(), 2, {}, {}};
}
CompletionTimes evaluate_direct_reduce_scatter(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  DirectSteps steps(evaluator, bytes, type);
  return {steps.meet().sum(steps.share(), 1).meet().now(), 2, {}, {}};
}
CompletionTimes evaluate_direct_all_gather(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  DirectSteps steps(evaluator, bytes, type);
  return {steps.meet().move(steps.share() * steps.members()).meet().now(), 2, {}, {}};
}
CompletionTimes evaluate_direct_broadcast(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  DirectSteps steps(evaluator, bytes, type);
  const std::vector<Duration> first = steps.from_root().now();
  return {steps.move(2 * steps.bytes(), 1).to_root().now(), 2, {}, first};
}
CompletionTimes evaluate_one_shot(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  DirectSteps steps(evaluator, bytes, type);
  return {steps.move(2 * steps.bytes()).meet().sum(steps.bytes(), 1).now(), 2, {}, {}};
}
CompletionTimes evaluate_direct_barrier(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return {DirectSteps(evaluator, bytes, type).meet().now(), 2, {}, {}};
}

CompletionTimes evaluate_dissemination(ScheduleEvaluator& evaluator, std::size_t, DType) {
  const int members = evaluator.members();
  std::vector<Duration> now(static_cast<std::size_t>(members));
  std::vector<int> order(static_cast<std::size_t>(members));
  std::iota(order.begin(), order.end(), 0);
  for (int distance = 1; distance < members; distance *= 2) {
    std::vector<Duration> next = now;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return now[static_cast<std::size_t>(a)] < now[static_cast<std::size_t>(b)];
    });
    for (int from : order) {
      const auto own = static_cast<std::size_t>(from),
                 to = static_cast<std::size_t>((from + distance) % members);
      const ScheduleEvaluator::Sent sent =
          evaluator.send(evaluator.way(from, static_cast<int>(to)), 0, now[own]);
      next[to] = std::max(next[to], sent.there);
      next[own] = std::max(next[own], sent.done);
    }
    now = next;
  }
  return {now, static_cast<double>(std::bit_width(static_cast<unsigned>(members - 1))), {}, {}};
}

CompletionTimes evaluate_gather(ScheduleEvaluator& evaluator, std::size_t bytes, DType) {
  const int members = evaluator.members(), others = members - 1;
  // Equal parts, of which one is evaluated; faults make them unequal.
  const int parts = evaluator.is_steady() ? std::max(1, (others + kGathered - 1) / kGathered) : 1;
  const int shifts = (others + parts - 1) / parts;
  std::vector<Duration> ends(static_cast<std::size_t>(members));
  for (int i = 0; i < shifts; ++i) {
    const auto shift = 1 + static_cast<int>(static_cast<std::int64_t>(i) * others / shifts);
    for (int from = 0; from < members; ++from) {
      const int to = (from + shift) % members;
      const ScheduleEvaluator::Sent sent =
          evaluator.send(evaluator.way(from, to), static_cast<double>(bytes), Duration(0));
      auto& end = ends[static_cast<std::size_t>(to)];
      end = std::max(end, sent.there);
    }
  }
  if (parts > 1) {
    const Duration longest = *std::max_element(ends.begin(), ends.end());
    evaluator.repeat({}, parts - 1, longest);
    for (Duration& end : ends) end = ScheduleEvaluator::later(end, end, parts - 1);
  }
  return {ends, 1, {}, {}};
}

}  // namespace taxon::sim
