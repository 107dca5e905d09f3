#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/path.h"

namespace taxon::codec {

// What kernels of blocks share.

/// Values that go through the registers together. Every block is whole pieces, padded with zeros at the end.
inline constexpr std::size_t kPiece = 64;

/// 32 random bits for value `i` of a block (Wellons, "Prospecting for hash functions", 2018).
TAXON_INLINE std::uint32_t chance(std::uint32_t key, std::uint32_t i) {
  std::uint32_t x = key + i * 0x9E3779B9U;
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

template <int kBits>
struct Codes;
template <>
struct Codes<8> {
  static TAXON_INLINE void pack(const std::uint8_t* codes, std::uint8_t* out) {
    for (std::size_t i = 0; i < kPiece; ++i) out[i] = codes[i];
  }
  static TAXON_INLINE void unpack(const std::uint8_t* in, std::uint8_t* codes) {
    for (std::size_t i = 0; i < kPiece; ++i) codes[i] = in[i];
  }
};
// The first half of a piece lies in the lower bits: halves are whole registers, neighbours are not.
template <>
struct Codes<4> {
  static TAXON_INLINE void pack(const std::uint8_t* codes, std::uint8_t* out) {
    for (std::size_t i = 0; i < kPiece / 2; ++i)
      out[i] = static_cast<std::uint8_t>(codes[i] | codes[i + kPiece / 2] << 4);
  }
  static TAXON_INLINE void unpack(const std::uint8_t* in, std::uint8_t* codes) {
    for (std::size_t i = 0; i < kPiece / 2; ++i) {
      codes[i] = in[i] & 15;
      codes[i + kPiece / 2] = in[i] >> 4;
    }
  }
};
template <>
struct Codes<2> {
  static constexpr std::size_t kQuarter = kPiece / 4;
  static TAXON_INLINE void pack(const std::uint8_t* codes, std::uint8_t* out) {
    for (std::size_t i = 0; i < kQuarter; ++i)
      out[i] = static_cast<std::uint8_t>(codes[i] | codes[i + kQuarter] << 2 | codes[i + 2 * kQuarter] << 4 |
                                         codes[i + 3 * kQuarter] << 6);
  }
  static TAXON_INLINE void unpack(const std::uint8_t* in, std::uint8_t* codes) {
    for (std::size_t i = 0; i < kQuarter; ++i) {
      codes[i] = in[i] & 3;
      codes[i + kQuarter] = in[i] >> 2 & 3;
      codes[i + 2 * kQuarter] = in[i] >> 4 & 3;
      codes[i + 3 * kQuarter] = in[i] >> 6;
    }
  }
};

/// Calls body(first, count, piece bytes) for each piece of the block; the last may be shorter than kPiece.
template <int kBits, class Body>
TAXON_INLINE void for_pieces(std::size_t size, Body&& body) {
  for (std::size_t first = 0; first < size; first += kPiece)
    body(first, std::min(kPiece, size - first), first * kBits / 8);
}

}  // namespace taxon::codec
