#pragma once

#include <span>

#include "model/staged.h"
#include "parallel/split.h"

namespace taxon::model {

/// What a process holds of a model that is cut into stages.
struct HeldStages {
  /// What the whole model's says of the held stages. Parameters and buffers come segment by segment.
  ModelSpec spec;
  std::vector<Piece> pieces;                       // one for each stage, until cut_pieces()
  std::vector<int> segments, parameters, buffers;  // of the spec: indices into the whole's
  std::vector<std::vector<int>> reads;  // of each held segment: parameters of the spec, also borrowed
};
/// `borrowed`: of each segment the parameters of others that it reads; empty: none. Where the owner is
/// elsewhere a borrowed parameter is in the segment that reads it first. Throws Error{Usage} for more stages
/// than segments, and where it is not known what a stage hands to the next.
HeldStages held_stages(const ModelSpec& whole, const Division& division,
                       const std::vector<std::vector<int>>& borrowed = {});
/// What held_stages() throws for.
void check_stages(const ModelSpec& whole, const Division& division);

/// A segment of the whole model becomes several: `steps[s]` of segment s, each of which is one of a model
/// that is split over members.
Division in_steps(const Division& division, std::span<const std::size_t> steps);

/// Cuts the pieces where members move something. `rows`: how each segment of the whole is split, whose spec
/// says what leaves it on this member. Throws Error{Usage} where no movement leads from one to the next.
void cut_pieces(HeldStages& held, const ModelSpec& whole, const Division& division,
                std::span<const parallel::SplitRow* const> rows);
/// Consecutive elements of a whole tensor that a part has, in the part's order. `shape`: the part's.
std::vector<Range> part_of_whole(std::span<const std::int64_t> shape, int split, int blocks, int members,
                                 int member);

}  // namespace taxon::model
