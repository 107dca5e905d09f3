#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "launch/forked.h"
#include "plan/plan.h"

namespace taxon::app {

/// The words of `taxon train`.
struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int workers = 0;     // 0: not given
  std::string out;     // empty: runs/<plan name>
  std::string resume;  // empty: not given; kNewest; or the step of a checkpoint
  static constexpr const char* kNewest = "newest";
  bool overwrite = false;
  bool dry_run = false;
  bool all = false;          // keys of the plan in a dry run
  bool verbose = false;      // of every bucket
  bool json = false;         // the result for programs
  std::string record_order;  // files; empty: not asked for
  std::string follow_order;
  std::vector<std::string> command_line;       // for starting workers
  launch::MainFunction main = nullptr;         // likewise, see LocalLaunch
  int worker_output = -1;                      // descriptor for what workers print; -1: this process's
  std::function<void()> on_stop;               // a stop signal came while workers of this host train
  const std::atomic<bool>* stopped = nullptr;  // one came before; null: it ends the process
};

/// Runs the command; returns the process's exit code. Logs to stderr, results to stdout.
int run_train(const TrainArguments& arguments);

/// Checks what can be checked without starting anything, and trains `plan`, which is legal, with workers of
/// this host into the folder `out`. Returns as run_workers(); throws Error.
int train_with_local_workers(const TrainArguments& arguments, const plan::Plan& plan, const std::string& out);

}  // namespace taxon::app
