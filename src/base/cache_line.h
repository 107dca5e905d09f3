#pragma once

#include <cstddef>

namespace taxon {

constexpr std::size_t kCacheLine = 64;  // bytes

/// Bytes for `size` of them and what follows to begin at a line of their own.
constexpr std::size_t round_to_line(std::size_t size) {
  return (size + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace taxon
