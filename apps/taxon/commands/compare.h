#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace taxon::app {

/// The words of `taxon compare`.
struct CompareArguments {
  std::vector<std::string> recipes;
  std::vector<std::string> overrides;
  std::string out;
  int workers = 0;           // 0: two, or as many as the cluster holds
  double seconds = 0;        // of training; 0: not given
  std::int64_t samples = 0;  // 0: not given
  double target = 0;         // share or per cent; 0: none
  std::vector<std::uint64_t> seeds;
  std::string emulated;  // how the hosts are emulated; empty: they are not
  bool simulate = false;
  std::string cluster;  // of a simulation
  std::string profile;
  std::int64_t steps = 10;
  std::vector<std::string> command_line;  // for the report; its first word starts workers
};

/// Runs the command; returns the process's exit code. The table to stdout, the log and mistakes to stderr.
int run_compare(const CompareArguments& arguments);

}  // namespace taxon::app
