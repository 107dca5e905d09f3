#include "train/reports.h"

#include <cmath>
#include <limits>
#include <utility>

namespace taxon::train {

void Reports::stepped(const Step& step) {
  TAXON_CHECK(!last_, "step {} is not finished", last_->report.step);
  last_ = step;
  told_ = false;
}

task::Task<void> Reports::tell(Pace* pace, Vote::Ballot ballot, Vote::Tally* tally) {
  std::int64_t samples = 0;
  if (!std::exchange(told_, true)) {
    // Of a skipped step it may be none, and sums over all steps go on.
    ballot.loss_sum = last_->report.skipped && !std::isfinite(last_->loss_sum) ? 0 : last_->loss_sum;
    ballot.correct = last_->correct;
    samples = last_->own_size;
  }
  return pace->tell(ballot, samples, tally);
}

void Reports::finish(const Vote::Tally& tally, double norm) {
  if (!last_) return;
  StepReport& report = last_->report;
  const double size = tally.samples > 0 ? tally.samples : static_cast<double>(last_->size);
  report.gradient_norm = norm;
  // A NaN of the library's has whatever sign it has.
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const double loss_sum = std::isnan(tally.loss_sum) ? kNone : tally.loss_sum;
  report.loss = report.skipped ? kNone : loss_sum / size;
  report.accuracy = tally.correct / size;
  if (report.epoch != epoch_) {
    epoch_ = report.epoch;
    loss_ = 0;
    samples_ = 0;
  }
  if (!report.skipped) {
    loss_ += loss_sum;
    samples_ += static_cast<std::int64_t>(size);
  }
  observer_.stepped(report);
  last_.reset();
}

task::Task<void> Reports::flush(Pace* pace, double norm) {
  if (!last_) co_return;
  Vote::Tally tally;
  auto telling = tell(pace, {}, &tally);
  co_await telling;
  finish(tally, norm);
}

}  // namespace taxon::train
