#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "control/clock.h"
#include "control/diagnose.h"

namespace taxon::control {

/// When a hang is worth a report: at once when it is new or has other culprits than before, then after
/// `patience`, twice that, four times that, ... Pure bookkeeping, told the time by its caller.
class HangWatch {
 public:
  explicit HangWatch(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The report that is due, if any.
  std::optional<HangReport> look(const WaitPicture& picture, Clock::time_point now);
  /// A silent rank is back. What was waited for while it was away says nothing about the ranks that now go
  /// on, so nothing is reported for `patience`; what hangs after that is new.
  void calm(Clock::time_point now);

 private:
  void forget();

  std::chrono::milliseconds patience_;
  std::chrono::milliseconds pause_{0};  // until a report is repeated; 0: none was made
  std::vector<Rank> culprits_;
  Clock::time_point next_report_;
  std::optional<Clock::time_point> calm_until_;
};

}  // namespace taxon::control
