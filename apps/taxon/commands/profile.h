#pragma once

#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon profile`.
struct ProfileArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string out;  // empty: no file
  int workers = 1;
  int threads = 0;  // 0: as training would use
  int steps = 20;
};

/// Runs the command; returns the process's exit code. The table to stdout, mistakes to stderr.
int run_profile(const ProfileArguments& arguments);

}  // namespace taxon::app
