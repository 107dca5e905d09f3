#pragma once

#include <string>
#include <vector>

#include "launch/forked.h"

namespace taxon::app {

/// The words of `taxon calibrate`.
struct CalibrateArguments {
  std::string out = "cluster.yaml";
  int workers = 0;  // 0: not given
  int threads = 0;  // compute threads per worker; 0: the host's cores divided by its workers
  std::string transport = "auto";
  bool quick = false;
  bool json = false;
  std::vector<std::string> command_line;  // for starting workers
  launch::MainFunction main = nullptr;    // likewise, see LocalLaunch
};

/// Runs the command; returns the process's exit code. Logs to stderr, the table to stdout.
int run_calibrate(const CalibrateArguments& arguments);

}  // namespace taxon::app
