#pragma once

#include <cstdint>
#include <optional>

#include "plan/choice.h"

namespace taxon::parallel {

/// Where a tensor lies over the members of a group, in DTensor's words.
enum class Holding : std::uint8_t {
  Replicated,  // every member has all of it
  Sharded,     // every member has its part along a dimension
  Partial      // every member has a summand of it
};
/// Of activations: the first dimension is samples, the last features.
enum class Dimension : std::uint8_t { Samples, Features };

struct Placement {
  Holding holding = Holding::Replicated;
  Dimension dimension = Dimension::Samples;  // where it is sharded
  friend bool operator==(const Placement& a, const Placement& b) {
    return a.holding == b.holding && (a.holding != Holding::Sharded || a.dimension == b.dimension);
  }
};
inline constexpr Placement kReplicated{Holding::Replicated};
inline constexpr Placement kPartial{Holding::Partial};
inline constexpr Placement kBySamples{Holding::Sharded, Dimension::Samples};
inline constexpr Placement kByFeatures{Holding::Sharded, Dimension::Features};

/// What brings a tensor from one placement into another.
enum class Movement : std::uint8_t { None, Slice, AllGather, AllReduce, ReduceScatter, AllToAll };

/// None where nothing does: no collective makes summands of a sum.
std::optional<Movement> movement(Placement from, Placement to);
/// Bytes that a member sends of a tensor of `bytes` in all, by the algorithms that send least.
double moved_bytes(Movement movement, double bytes, int members);

}  // namespace taxon::parallel

template <>
struct taxon::plan::Words<taxon::parallel::Movement> {
  static constexpr std::string_view all[] = {"none",       "slice",          "all_gather",
                                             "all_reduce", "reduce_scatter", "all_to_all"};
};
