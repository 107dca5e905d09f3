#include "control/hang_watch.h"

namespace taxon::control {

std::optional<HangReport> HangWatch::look(const WaitPicture& picture, Clock::time_point now) {
  if (calm_until_ && now < *calm_until_) return {};
  auto report = diagnose(picture);
  if (!report) {
    forget();
    return {};
  }
  bool repeated = pause_.count() > 0 && report->culprits == culprits_;
  if (repeated && now < next_report_) return {};
  pause_ = repeated ? pause_ * 2 : patience_;
  next_report_ = now + pause_;
  culprits_ = report->culprits;
  return report;
}

void HangWatch::calm(Clock::time_point now) {
  calm_until_ = now + patience_;
  forget();
}

void HangWatch::forget() {
  pause_ = std::chrono::milliseconds(0);
  culprits_.clear();
}

}  // namespace taxon::control
