#include "launch/waiting_choice.h"

#include <algorithm>

#include "report/summary.h"

namespace taxon::launch {
namespace {

constexpr double kCalmShare = 0.03;
constexpr int kMostWindows = 512;
// On a busy machine speeds scatter: Passive stays unless it is clearly slower, Active comes back only where
// it is clearly faster.
constexpr double kNotSlower = 0.9, kFaster = 1.1;

}  // namespace

void WaitingChoice::judge(double speed) {
  tries_ = false;
  const bool passive = now_ == Waiting::Passive;
  const bool stays = speed >= before_ * (passive ? kNotSlower : kFaster);
  int& windows = passive ? after_busy_ : after_calm_;
  if (stays) {
    windows = passive ? 1 : kFirstCalm;
  } else {
    windows = std::min(2 * windows, kMostWindows);
    change();
  }
}

Waiting WaitingChoice::after(double speed, double queued) {
  if (tries_) {
    judge(speed);
    count_ = 0;
    return now_;
  }
  const bool active = now_ == Waiting::Active;
  const bool asks = active ? queued >= report::CoreUse::kBusyShare : queued < kCalmShare;
  count_ = asks ? count_ + 1 : 0;
  if (count_ < (active ? after_busy_ : after_calm_)) return now_;
  count_ = 0;
  tries_ = true;
  before_ = speed;
  change();
  return now_;
}

}  // namespace taxon::launch
