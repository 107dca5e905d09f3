#pragma once

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// Nobody owns anything: in each round every member keeps an equal share of what it has and sends the others
/// to its neighbours of the level's graph, the weight with it (push-sum: Kempe, Dobra, Gehrke, FOCS 2003), so
/// that the sum of the weights over the members stays their number.
std::unique_ptr<Topology> make_gossip(comm::Communicator& group, TopologyContext context);

}  // namespace taxon::exchange
