#pragma once

#include <memory>

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// Sharded state (ZeRO: Rajbhandari et al., SC 2020, arXiv 1910.02054): reduce scatters the sum over the
/// members, each updates its part, and spread gathers the values. As many bytes as an all-reduce, 1/n of the
/// optimiser's state.
std::unique_ptr<Topology> make_sharded(comm::Communicator& group, TopologyContext context);

}  // namespace taxon::exchange
