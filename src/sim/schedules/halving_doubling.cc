#include <algorithm>
#include <bit>

#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

/// All members, round after round, as comm/rows/halving_doubling_all_reduce.cc goes.
class HalvingSteps {
 public:
  HalvingSteps(ScheduleEvaluator& evaluator, std::size_t bytes, DType type)
      : evaluator_(evaluator),
        type_(type),
        bytes_(static_cast<double>(bytes)),
        power_(static_cast<int>(std::bit_floor(static_cast<unsigned>(evaluator.members())))),
        surplus_(evaluator.members() - power_),
        now_(static_cast<std::size_t>(evaluator.members())) {
    for (int place = 0; place < power_; ++place) order_.push_back(place);
  }

  CompletionTimes run() {
    for (int pair = 0; pair < surplus_; ++pair) fold(2 * pair + 1, 2 * pair);
    double size = bytes_;
    for (int distance = power_ / 2; distance > 0; distance /= 2) exchange(distance, size /= 2, true);
    for (int distance = 1; distance < power_; distance *= 2, size *= 2) exchange(distance, size, false);
    for (int pair = 0; pair < surplus_; ++pair) unfold(2 * pair, 2 * pair + 1);
    return {now_, 2.0 * (std::bit_width(static_cast<unsigned>(power_)) - 1 + (surplus_ > 0)), {}, {}};
  }

 private:
  Duration& now(int member) { return now_[static_cast<std::size_t>(member)]; }
  int member_at(int place) const { return place < surplus_ ? 2 * place : place + surplus_; }

  void fold(int from, int to) {
    const ScheduleEvaluator::Sent sent = evaluator_.send(evaluator_.way(from, to), bytes_, Duration(0));
    now(from) = sent.done;
    now(to) = evaluator_.sum(to, type_, bytes_, 2, 1, sent.there);
  }
  void unfold(int from, int to) {
    const ScheduleEvaluator::Sent sent = evaluator_.send(evaluator_.way(from, to), bytes_, now(from));
    now(from) = sent.done;
    now(to) = std::max(now(to), sent.there);
  }

  /// Links serve first who comes first.
  void exchange(int distance, double bytes, bool sums) {
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return now(member_at(a)) < now(member_at(b)); });
    std::vector<ScheduleEvaluator::Sent> sent(order_.size());
    for (int place : order_) {
      const int from = member_at(place), to = member_at(place ^ distance);
      sent[static_cast<std::size_t>(place)] = evaluator_.send(evaluator_.way(from, to), bytes, now(from));
    }
    for (int place : order_) {
      const int member = member_at(place);
      Duration at = std::max(now(member), sent[static_cast<std::size_t>(place ^ distance)].there);
      if (sums) at = evaluator_.sum(member, type_, bytes, 2, 1, at);
      now(member) = std::max(at, sent[static_cast<std::size_t>(place)].done);
    }
  }

  ScheduleEvaluator& evaluator_;
  DType type_;
  double bytes_;
  int power_, surplus_;
  std::vector<Duration> now_;
  std::vector<int> order_;  // places, by time
};

}  // namespace

CompletionTimes evaluate_halving_doubling(ScheduleEvaluator& evaluator, std::size_t bytes, DType type) {
  return HalvingSteps(evaluator, bytes, type).run();
}

}  // namespace taxon::sim
