#pragma once

#include "planner/dry_run.h"
#include "planner/simulation.h"
#include "planner/simulation_report.h"
#include "sim/world.h"

/// A plan on a cluster that is only described, on virtual time; and, without running it at all, its place on
/// the axes, its memory and its bytes.
namespace taxon {

using planner::dry_run;
using planner::Printed;
using planner::simulate;
using planner::SimulationInput;
using planner::SimulationResult;

}  // namespace taxon
