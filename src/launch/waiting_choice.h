#pragma once

#include "launch/openmp_waiting.h"

namespace taxon::launch {

/// Chooses by what is seen in windows of a run. Others on the cores make it try Passive, and cores that have
/// been free for a while make it try Active; the steps of the window after it say whether that stays. What
/// did not help is tried again after twice as many windows. The number of threads never changes: sums depend
/// on it.
class WaitingChoice {
 public:
  explicit WaitingChoice(Waiting first = Waiting::Active) : now_(first) {}

  /// After a window with `speed` steps per second in which threads waited the share `queued` of the time for
  /// cores. Returns what the next window has.
  Waiting after(double speed, double queued);
  Waiting now() const { return now_; }
  /// `now` is being tried.
  bool tries() const { return tries_; }

 private:
  void change() { now_ = now_ == Waiting::Active ? Waiting::Passive : Waiting::Active; }
  void judge(double speed);

  Waiting now_;
  bool tries_ = false;
  double before_ = 0;            // speed of the window before the trial
  int count_ = 0;                // windows in a row that ask for a change
  int after_busy_ = 1;           // as many make it try Passive
  int after_calm_ = kFirstCalm;  // as many make it try Active
  static constexpr int kFirstCalm = 8;
};

}  // namespace taxon::launch
