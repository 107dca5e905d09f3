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

/// `environment` with control.address as MASTER_ADDR and MASTER_PORT, where the plan has one and the
/// environment has no MASTER_ADDR: who starts a run knows better than its recipe, and a recipe better than a
/// list of hosts. "host", "host:port" or "[IPv6]:port"; whether the port is one says who reads it.
Environment with_address(const plan::Plan& plan, Environment environment);

/// The job's secret: the plan's file first, then the environment's text, then the environment's file. Throws
/// Error{Usage} for a file that can't be read.
control::Secret find_secret(const plan::Plan& plan, const Environment& environment);

}  // namespace taxon::launch
