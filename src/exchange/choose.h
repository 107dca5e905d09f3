#pragma once

#include <cstddef>
#include <string>

#include "comm/collectives.h"
#include "plan/plan.h"

namespace taxon::exchange {

/// Nominal costs of the two kinds of path. Fixed figures, never live timing: what is chosen must not differ
/// from run to run.
comm::LinkCost nominal_cost(bool shares_memory);

/// The row that serves `shape`: the named one, or for "auto" the cheapest by nominal cost. Throws
/// Error{Usage} if the named row does not exist or does not apply.
const comm::CollectiveRow& choose(net::Operation collective, const std::string& name,
                                  const comm::Shape& shape);

/// Decides what hides communication, and names the collective of every bucket for a group of `size` members:
/// "none" for one alone.
void resolve_exchange(plan::Plan& plan, int size, bool shares_memory);

}  // namespace taxon::exchange
