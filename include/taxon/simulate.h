#pragma once

#include "planner/simulation.h"
#include "planner/simulation_report.h"
#include "sim/world.h"

/// A plan on a cluster that is only described, on virtual time.
namespace taxon {

using planner::simulate;
using planner::SimulationInput;
using planner::SimulationResult;

}  // namespace taxon
