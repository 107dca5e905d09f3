#include "train/report/step_reporter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace taxon::train {

void StepReporter::stepped(const Step& step) {
  TAXON_CHECK(!last_, "step {} is not finished", last_->report.step);
  last_ = step;
  told_ = false;
}

task::Task<void> StepReporter::tell(StepCoordinator* pace, StepReduction::LocalStatus local,
                                    StepReduction::GlobalStatus* global) {
  std::int64_t samples = 0;
  if (!std::exchange(told_, true)) {
    // Of a skipped step they may be none, and sums over all steps go on.
    const auto summand = [skipped = last_->report.skipped](double sum) {
      return skipped && !std::isfinite(sum) ? 0 : sum;
    };
    local.loss_sum = summand(last_->output.loss_sum);
    std::transform(last_->output.counts.begin(), last_->output.counts.end(), local.counts.begin(), summand);
    samples = last_->own_size;
  }
  return pace->tell(local, samples, global);
}

void StepReporter::finish(const StepReduction::GlobalStatus& global, double norm) {
  if (!last_) return;
  StepReport& report = last_->report;
  const double samples = global.samples > 0 ? global.samples : static_cast<double>(last_->size);
  const double labels = samples * static_cast<double>(targets_);
  report.gradient_norm = norm;
  // A NaN of the library's has whatever sign it has.
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double loss_sum = std::isnan(global.loss_sum) ? kNone : global.loss_sum;
  report.loss = report.skipped ? kNone : loss_sum / labels;
  report.scores = {metrics_, {.loss = report.loss}};
  for (std::size_t i = 0; i < model::kMostCounts; ++i)
    report.scores.means.counts[i] = global.counts[i] / labels;
  if (report.epoch != epoch_) {
    epoch_ = report.epoch;
    loss_ = 0;
    labels_ = 0;
  }
  if (!report.skipped) {
    loss_ += loss_sum;
    labels_ += static_cast<std::int64_t>(labels);
  }
  observer_.stepped(report);
  last_.reset();
}

task::Task<void> StepReporter::flush(StepCoordinator* pace, double norm) {
  if (!last_) co_return;
  StepReduction::GlobalStatus global;
  auto telling = tell(pace, {}, &global);
  co_await telling;
  finish(global, norm);
}

}  // namespace taxon::train
