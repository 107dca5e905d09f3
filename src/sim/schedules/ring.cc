#include "comm/rows/ring.h"

#include <algorithm>

#include "comm/rows/segments.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

constexpr double kFactsBytes = 16;  // of comm::Agreement

/// All members of a ring, segment after segment.
class RingSteps {
 public:
  RingSteps(Rehearsal& rehearsal, std::size_t bytes, DType type)
      : rehearsal_(rehearsal),
        type_(type),
        members_(static_cast<std::size_t>(rehearsal.members())),
        segments_(comm::segments_for((bytes + members_ - 1) / members_)),
        window_(std::min(comm::Ring::kAhead, segments_)),
        piece_(static_cast<double>(bytes) / static_cast<double>(members_ * segments_)),
        arrived_(members_),
        left_(members_),
        done_(members_, std::vector<Duration>(window_)),
        last_(members_) {
    for (int member = 0; member < rehearsal.members(); ++member)
      ways_.push_back(rehearsal.way(member, (member + 1) % rehearsal.members()));
  }

  Timetable run(comm::Ring::Steps steps) {
    if (segments_ > 1) agree();
    const int summing = rehearsal_.members() - 1;
    phase(std::min(steps.last, summing) - steps.first, true);
    phase(steps.last - std::max(steps.first, summing), false);
    return {last_, static_cast<double>(item_) / static_cast<double>(window_), {}, {}};
  }

 private:
  void agree() {
    for (std::size_t member = 0; member < members_; ++member)
      arrived_[(member + 1) % members_] = rehearsal_.send(ways_[member], kFactsBytes, Duration(0)).there;
    last_ = arrived_;
  }

  void phase(int steps, bool sums) {
    Duration period{-1};
    for (int step = 0; step < steps; ++step) {
      const bool watch = rehearsal_.is_steady() && step + 1 < steps;
      const std::vector<Duration> before = watch ? last_ : std::vector<Duration>();
      const Rehearsal::Snapshot used = watch ? rehearsal_.snapshot() : Rehearsal::Snapshot();
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
      const Rehearsal::Sent sent = rehearsal_.send(ways_[member], piece_, done_[member][slot]);
      left_[member] = sent.done;
      arrived_[(member + 1) % members_] = sent.there;
    }
    for (std::size_t member = 0; member < members_; ++member) {
      Duration at = std::max(arrived_[member], last_[member]);
      if (sums) at = rehearsal_.sum(static_cast<int>(member), type_, piece_, 2, 1, at);
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

  void skip(const Rehearsal::Snapshot& used, int steps, Duration period) {
    rehearsal_.repeat(used, steps, period);
    item_ += segments_ * static_cast<std::size_t>(steps);
    for (Duration& at : last_) at += period * steps;
    for (auto& window : done_)
      for (Duration& at : window) at += period * steps;
  }

  Rehearsal& rehearsal_;
  DType type_;
  std::size_t members_, segments_, window_;
  double piece_;
  std::vector<Rehearsal::Way> ways_;
  std::vector<Duration> arrived_, left_;
  std::vector<std::vector<Duration>> done_;  // [member]: of the last segments
  std::vector<Duration> last_;
  std::size_t item_ = 0;
};

}  // namespace

Timetable rehearse_ring_all_reduce(Rehearsal& rehearsal, std::size_t bytes, DType type) {
  return RingSteps(rehearsal, bytes, type).run(comm::Ring::both(rehearsal.members()));
}
Timetable rehearse_ring_reduce_scatter(Rehearsal& rehearsal, std::size_t bytes, DType type) {
  return RingSteps(rehearsal, bytes, type).run(comm::Ring::reduce(rehearsal.members()));
}
Timetable rehearse_ring_all_gather(Rehearsal& rehearsal, std::size_t bytes, DType type) {
  return RingSteps(rehearsal, bytes, type).run(comm::Ring::gather(rehearsal.members()));
}

}  // namespace taxon::sim
