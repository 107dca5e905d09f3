#pragma once

#include <cstdint>
#include <span>

#include "codec/path.h"

namespace taxon::codec {

/// How a block of values shares one scale.
struct BlockShape {
  std::size_t block = 256;  // values of a scale: a multiple of 64
  int levels = 127;         // steps from 0 to the largest magnitude
  int bits = 8;             // of a code: 2, 4 or 8
  bool by_chance = false;   // codes are rounded by chance, without bias; otherwise to the nearest
  std::size_t blocks(std::size_t count) const { return (count + block - 1) / block; }
  /// Bytes of the codes of `count` values; blocks begin at whole bytes.
  std::size_t code_bytes(std::size_t count) const {
    return (blocks(count) * block * static_cast<std::size_t>(bits) + 7) / 8;
  }
};

/// One scale per block, and codes. REQUIRES: finite values; scales.size() == blocks(count); codes of
/// code_bytes(count), all of which are written. With `keep_rest`, values := what codes lack. `key`: of
/// chance.
void encode_blocks(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
                   const BlockShape& shape, bool keep_rest, std::uint64_t key, Path path);
/// values := or += what the codes stand for.
void decode_blocks(std::span<const float> scales, std::span<const std::uint8_t> codes,
                   const BlockShape& shape, bool add, std::span<float> values, Path path);

}  // namespace taxon::codec
