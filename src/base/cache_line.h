#pragma once

#include <cstddef>

namespace taxon {

/// Bytes; of every machine that Taxon runs on, and what codecs' wires and arenas are laid out by.
constexpr std::size_t kCacheLine = 64;

/// Bytes for `size` of them and what follows to begin at a line of their own.
constexpr std::size_t round_to_line(std::size_t size) {
  return (size + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace taxon
