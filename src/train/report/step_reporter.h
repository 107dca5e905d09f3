#pragma once

#include <limits>
#include <optional>

#include "train/observer.h"
#include "train/sync/step_coordinator.h"

namespace taxon::train {

/// The observer's steps. The loss of one is a sum over ranks that is known with the reduction beside the
/// next, so it is kept back until then.
class StepReporter {
 public:
  /// `observer` outlives it. `targets`: labels of a sample.
  StepReporter(Observer& observer, std::span<const model::Metric> metrics, std::int64_t targets)
      : observer_(observer), metrics_(metrics), targets_(targets) {}

  /// What this rank's last step gave: its own part of `size` samples of all.
  struct Step {
    StepReport report;
    std::int64_t size = 0, own_size = 0;
    model::StepOutput output = {};  // of its own part
  };
  /// REQUIRES: the step before is finished.
  void stepped(const Step& step);

  /// Tells the others of the last step, and asks all to stop if `local` does; to run beside the next step.
  /// `global` outlives the task.
  task::Task<void> tell(StepCoordinator* pace, StepReduction::LocalStatus local,
                        StepReduction::GlobalStatus* global);
  /// Gives the last step to the observer, if it still has to. `norm`: of its gradient.
  void finish(const StepReduction::GlobalStatus& global, double norm);
  /// Both at once, where no step comes next.
  task::Task<void> flush(StepCoordinator* pace, double norm);

  /// Mean over the steps of the last epoch that were seen; not a number if there was none.
  double epoch_loss() const {
    return labels_ > 0 ? loss_ / static_cast<double>(labels_) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  Observer& observer_;
  const std::span<const model::Metric> metrics_;
  const std::int64_t targets_;
  std::optional<Step> last_;  // until it is finished
  bool told_ = true;
  double loss_ = 0;
  std::int64_t labels_ = 0, epoch_ = -1;
};

}  // namespace taxon::train
