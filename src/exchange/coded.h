#pragma once

#include <memory>
#include <vector>

#include "codec/codec.h"
#include "exchange/topology.h"

namespace taxon::exchange {

/// Replicated state whose contributions travel through the level's codec: every member gets the same sum of
/// what members sent, and keeps what did not travel in a memory that is a part of the training's state.
std::unique_ptr<Topology> make_coded(comm::Communicator& group, TopologyContext context);

/// True if the level has a codec.
bool is_coded(const plan::LevelPlan& level);
/// True if what sums at the level is recorded for each bucket: where nothing but a codec can serve it, what
/// its wires travel by follows from their sizes.
inline bool records_reduce(const plan::LevelPlan& level) {
  return !is_coded(level) || level.codec.name == "auto";
}
/// True if members keep what did not travel.
bool keeps_errors(const plan::CodecPlan& plan, const codec::CodecRow& row);
/// Bytes that a member sends for the values of a range, the members' mean. REQUIRES: a codec.
double coded_bytes_sent(const plan::LevelPlan& level, const codec::Extent& extent, int size);
/// The tensors in a range of the arena that has these slots, as codecs see them: a tensor of several
/// dimensions is a matrix whose rows are its first. Places count from the range's beginning.
std::vector<codec::Piece> pieces_of(std::span<const tensor::Slot> slots, Range range);

}  // namespace taxon::exchange
