#pragma once

#include <memory>

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// Replicated state: reduce sums the whole bucket at every member, and since each then updates all of it with
/// the same bits, nothing is left to spread.
std::unique_ptr<Topology> make_all_reduce(comm::Communicator& group, TopologyContext context);

}  // namespace taxon::exchange
