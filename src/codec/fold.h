#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"

namespace taxon::codec {

/// Sums of `neighbours` values that follow each other, with random signs: of |sum|^2 the mean is their energy
/// (Alon, Matias and Szegedy, STOC 1996). The last sum may be of fewer. Linear. The same bits on every path.
/// REQUIRES: neighbours a power of two up to kMostNeighbours; sums.size() == folded_size().
inline constexpr std::size_t kMostNeighbours = 64;
void fold(std::span<const float> values, std::size_t neighbours, std::uint64_t key, std::span<float> sums,
          Isa path);
constexpr std::size_t folded_size(std::size_t count, std::size_t neighbours) {
  return (count + neighbours - 1) / neighbours;
}

}  // namespace taxon::codec
