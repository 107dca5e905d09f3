#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"

namespace taxon::codec {

/// Of two values the one of larger magnitude has the larger key, and of equal ones that at the lower place:
/// the magnitude's bits above the inverted place.
constexpr std::uint64_t key_of(std::uint32_t magnitude, std::uint32_t place) {
  return std::uint64_t{magnitude} << 32 | (~place & 0xffffffffU);
}
constexpr std::uint32_t place_of(std::uint64_t key) { return ~static_cast<std::uint32_t>(key); }
constexpr std::uint32_t magnitude_of(std::uint64_t key) { return static_cast<std::uint32_t>(key >> 32); }

/// Keys of all values whose magnitude is at least `threshold`, in the order of their places. Returns how many
/// there are, or stops with more than keys.size() - kCollectSlack when they don't fit.
inline constexpr std::size_t kCollectSlack = 64;
std::size_t collect_at_least(std::span<const float> values, std::uint32_t threshold,
                             std::span<std::uint64_t> keys, Isa path);

}  // namespace taxon::codec
