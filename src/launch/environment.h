#pragma once

#include <map>
#include <string>
#include <utility>

#include "control/secret.h"
#include "plan/plan.h"

namespace taxon::launch {

/// Variables by name.
using Environment = std::map<std::string, std::string>;

/// This process's environment.
Environment process_environment();

/// "host", "host:port", "[IPv6]:port" or an IPv6 address: its host without brackets, and its port as it is
/// written; empty: none.
std::pair<std::string, std::string> host_and_port(const std::string& address);

/// `environment` with control.address as MASTER_ADDR and MASTER_PORT, where the plan has one and the
/// environment has no MASTER_ADDR, or an empty one: who starts a run knows better than its recipe, and a
/// recipe better than a list of hosts. As host_and_port() splits it; whether the port is one says who reads
/// it.
Environment with_address(const plan::Plan& plan, Environment environment);

/// The job's secret: the plan's file first, then the environment's text, then the environment's file; what is
/// empty in the environment is not there. Throws Error{Usage} for a file that can't be read, or has nothing.
control::Secret find_secret(const plan::Plan& plan, const Environment& environment);

}  // namespace taxon::launch
