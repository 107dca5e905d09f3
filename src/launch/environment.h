#pragma once

#include <map>
#include <string>

#include "control/secret.h"
#include "plan/plan.h"

namespace taxon::launch {

/// Variables by name.
using Environment = std::map<std::string, std::string>;

/// This process's environment.
Environment process_environment();

/// The job's secret: the plan's file first, then the environment's text, then the environment's file. Throws
/// Error{Usage} for a file that can't be read.
control::Secret find_secret(const plan::Plan& plan, const Environment& environment);

}  // namespace taxon::launch
