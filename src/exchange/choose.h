#pragma once

#include <cstddef>
#include <string>

#include "comm/collectives.h"

namespace taxon::exchange {

/// Nominal costs of the two kinds of path. Fixed figures, never live timing: what is chosen must not differ
/// from run to run.
comm::LinkCost nominal_cost(bool shares_memory);

/// The row that serves `bytes` over `group`: the named one, or for "auto" the cheapest by nominal cost.
/// `mapped`: the data lies in memory that all members map. Throws Error{Usage} if the named row does not
/// exist or does not apply here.
const comm::CollectiveRow& choose(net::Operation collective, const std::string& name,
                                  const comm::Communicator& group, std::size_t bytes, bool mapped);

}  // namespace taxon::exchange
