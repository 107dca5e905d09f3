#pragma once

#include <memory>

#include "exchange/levels/topology.h"

namespace taxon::exchange {

/// Members tell each other only what is significant (Gaia's approximate synchronous parallel: Hsieh et al.,
/// NSDI 2017). Each member's weights are the common ones, equal everywhere, and its own way since, as far as
/// the others don't know it. In a round t (0 is the first) those entries of its way that exceed significance
/// / sqrt(t + 1) of their weight go to everybody, and their mean over the members into the common weights;
/// what is below stays its own and adds up. The mean over the members' weights stays what it was.
std::unique_ptr<Topology> make_significant(comm::Communicator& group, TopologyContext context);

/// What a member sends of a way of `count` elements: positions and values of the entries that are not 0, or
/// all values where that is less. The bytes of the two arrays; `entries` is how many are not 0.
std::size_t significant_bytes(std::size_t count, std::size_t entries, std::size_t element);

}  // namespace taxon::exchange
