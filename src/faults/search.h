#pragma once

#include <functional>
#include <map>

#include "faults/checks.h"
#include "faults/shape.h"

namespace taxon::faults {

/// One seed: a shape, a schedule of faults, and what came of it.
struct Trial {
  std::uint64_t seed = 0;
  JobShape shape;
  FaultSchedule schedule;
  SimulatedRun seen;
  Ending ending = Ending::Complete;
  bool resumed = false;               // from a checkpoint, or from the beginning, after the disturbed run
  std::vector<std::string> findings;  // what must not be
};

/// Everything about the trial follows from the seed: whoever has it can repeat it. Runs the shape without
/// faults, then twice with them; and if the plan keeps checkpoints and the run did not end well, once more
/// from what it left. Throws Error{Usage} if the recipe fits none of many shapes.
Trial try_seed(const Job& job, std::uint64_t seed);

/// First and last.
struct Seeds {
  std::uint64_t first = 1, last = 1;
};
/// "1..10000" or "17". Throws Error{Usage}.
Seeds parse_seeds(const std::string& text);

struct Tally {
  std::uint64_t trials = 0;
  std::uint64_t findings = 0;  // trials with at least one
  std::uint64_t resumed = 0;
  std::uint64_t messages = 0;  // delivered
  double seconds = 0;          // of virtual time
  std::map<Ending, std::uint64_t> endings;
  void add(const Trial& trial);
};

enum class GoOn { Yes, No };
/// Tries one seed after the other, shows each trial, and stops when told to.
Tally search(const Job& job, Seeds seeds, const std::function<GoOn(const Trial&)>& show);

}  // namespace taxon::faults
