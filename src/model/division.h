#pragma once

#include "model/staged.h"

namespace taxon::model {

/// What a process holds of a model that is cut into stages, each of which is one piece.
struct HeldStages {
  /// What the whole model's says of the held stages. Parameters and buffers come segment by segment; a buffer
  /// is in the segment whose name its own begins with, or in the first.
  ModelSpec spec;
  std::vector<Piece> pieces;
  std::vector<int> segments, parameters, buffers;  // of the spec: indices into the whole's
  std::vector<std::vector<int>> reads;  // of each held segment: parameters of the spec, also borrowed
};
/// `borrowed`: of each segment the parameters of others that it reads; empty: none. Where the owner is
/// elsewhere a borrowed parameter is in the segment that reads it first. Throws Error{Usage} for more stages
/// than segments, and where it is not known what a stage hands to the next.
HeldStages held_stages(const ModelSpec& whole, const Division& division,
                       const std::vector<std::vector<int>>& borrowed = {});

}  // namespace taxon::model
