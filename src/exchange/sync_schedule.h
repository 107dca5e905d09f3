#pragma once

#include <cstdint>
#include <optional>

#include "plan/plan.h"

namespace taxon::exchange {

/// When which part of the model meets: pure arithmetic on the number of local steps done, of which 1 is the
/// first. Fragment f of F meets after steps f H/F, f H/F + H, f H/F + 2H, ..., H being the period, and
/// everything after each of the first `warmup_steps` steps.
class SyncSchedule {
 public:
  explicit SyncSchedule(const plan::LevelPlan& plan)
      : period_(plan.period), fragments_(plan.fragments), delay_(plan.delay), warmup_(plan.warmup_steps) {}

  /// The fragment that bucket `index` of `count` belongs to: neighbours in the model are in one fragment.
  int fragment_of(std::size_t index, std::size_t count) const {
    return static_cast<int>(index * static_cast<std::size_t>(fragments_) / count);
  }
  bool meets(int fragment, std::int64_t step) const;
  /// After how many of the steps before `step` it met.
  std::int64_t meetings_before(int fragment, std::int64_t step) const;
  /// The step after which the answer of a meeting after `step` is adopted.
  std::int64_t adopted_after(std::int64_t step) const { return step <= warmup_ ? step : step + delay_; }
  /// The meeting of the fragment that is not adopted yet when `step` steps are done, whatever is due
  /// included.
  std::optional<std::int64_t> underway(int fragment, std::int64_t step) const;

 private:
  std::int64_t period_, fragments_, delay_, warmup_;
};

}  // namespace taxon::exchange
