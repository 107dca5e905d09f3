#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace taxon::faults
