#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/simulation.h"

namespace taxon::app {

/// The words of `taxon simulate`.
struct SimulateArguments {
  std::string recipe;
  std::string cluster;
  std::vector<std::string> overrides;
  int workers = 0;      // 0: as many as the cluster holds
  std::string profile;  // empty: none
  std::string fidelity = "timing";
  std::int64_t steps = 10;
  std::string trace;  // empty: none
  std::string json;   // empty: none
};

/// Reads and checks everything; throws one Error{Usage} with all mistakes.
planner::SimulationInput prepare_simulation(const SimulateArguments& arguments);

/// Runs the command; returns the process's exit code. Results to stdout, mistakes to stderr.
int run_simulate(const SimulateArguments& arguments);

}  // namespace taxon::app
