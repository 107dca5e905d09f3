#pragma once

#include <memory>

#include "exchange/topology.h"

namespace taxon::exchange {

/// Replicated state whose contributions travel through the level's codec: every member gets the same sum of
/// what members sent, and keeps what did not travel in a memory that is a part of the training's state.
std::unique_ptr<Topology> make_coded(comm::Communicator& group, TopologyContext context);

/// True if the level has a codec.
bool is_coded(const plan::LevelPlan& level);
/// Bytes that a member sends for so many bytes of values, the members' mean. REQUIRES: a codec.
double coded_bytes_sent(const plan::LevelPlan& level, std::size_t bytes, int size);

}  // namespace taxon::exchange
