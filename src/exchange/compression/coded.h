#pragma once

#include <memory>

#include "codec/codec.h"
#include "exchange/compression/coder.h"
#include "exchange/extensions.h"

namespace taxon::exchange {

/// The topology `dense`, all_reduce's or with `parts` sharded's, whose contributions travel through the
/// level's codec: every owner gets the same sum of what members sent, and keeps what did not travel in a
/// memory that is a part of the training's state. Where replicas meet, what travels is how far they went, see
/// Differences.
std::unique_ptr<Topology> make_coded(comm::Communicator& group, TopologyContext context,
                                     std::unique_ptr<Topology> dense, bool parts);

/// True if the level has a codec.
bool is_coded(const plan::LevelPlan& level);
/// True if what sums at the level is recorded for each bucket: where nothing but a codec can serve it, what
/// its wires travel by follows from their sizes.
inline bool records_reduce(const plan::LevelPlan& level) {
  return !is_coded(level) || level.codec.name == "auto";
}
/// Bytes that a member sends for the values of a range until their sum is with its owners, the members' mean.
/// REQUIRES: a codec, topology all_reduce or sharded.
double coded_bytes_sent(const plan::LevelPlan& level, const codec::Extent& extent, int size,
                        const Extensions& own = {});

}  // namespace taxon::exchange
