#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launch/core_pressure.h"
#include "launch/waiting_choice.h"
#include "report/summary.h"
#include "train/observer.h"

namespace taxon::job {

struct CoreWatchOptions {
  plan::ThreadWaiting waiting = plan::ThreadWaiting::Auto;  // the plan's
  int threads = 1;                                          // that compute
  int cores = 1;                                            // that the process might use when it began
  /// Lines for the log; empty: this rank says nothing.
  std::function<void(const std::string&)> say;
  std::function<std::optional<launch::ThreadTime>()> pressure;  // as CorePressure::take()
};

/// Watches how a rank's threads get along with others on the cores while it trains, and has them wait for
/// their next work as suits; says so, once a change. Hands everything on to `next`, which outlives it.
class CoreWatch final : public train::Observer {
 public:
  CoreWatch(train::Observer& next, CoreWatchOptions options);

  void started(const train::RunInfo& info) override;
  void stepped(const train::StepReport& report) override;
  void evaluated(const train::Evaluation& evaluation) override { next_.evaluated(evaluation); }
  void saved(const std::string& path) override { next_.saved(path); }
  void noticed(const std::string& sentence) override { next_.noticed(sentence); }

  /// Of the run so far.
  report::CoreUse use() const;

 private:
  void close_window();
  void follow(double speed, double share);
  bool chooses() const;

  train::Observer& next_;
  const CoreWatchOptions options_;
  launch::OpenMpWaiting openmp_;
  launch::WaitingChoice choice_;
  launch::Waiting told_ = launch::Waiting::Active;
  bool told_busy_ = false;
  bool refused_ = false;
  std::optional<launch::ThreadTime> total_;  // of all windows
  std::int64_t steps_ = 0;                   // of the window
  Duration time_{0};
  int changes_ = 0;
};

}  // namespace taxon::job
