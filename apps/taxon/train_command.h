#pragma once

#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon train`.
struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int workers = 0;  // 0: not given
  std::string out;  // empty: runs/<plan name>
  bool resume = false;
  bool overwrite = false;
  bool dry_run = false;
  std::vector<std::string> command_line;  // for starting workers
};

/// Runs the command; returns the process's exit code. Logs to stderr, results to stdout.
int run_train(const TrainArguments& arguments);

}  // namespace taxon::app
