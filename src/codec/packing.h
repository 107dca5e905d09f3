#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/isa.h"
#include "codec/scan.h"

namespace taxon::codec {

// What kernels of blocks share.

/// Values that go through the registers together. Every block is whole pieces, padded with zeros at the end.
inline constexpr std::size_t kPiece = 64;

/// As run_on() where kernels differ by path: Kernel<path>::run(arguments...).
template <template <Isa> class Kernel, class... Arguments>
auto run_variant_on(Isa path, Arguments... arguments) {
#if defined(__x86_64__)
  if (path == Isa::Avx512) return run_avx512<Kernel<Isa::Avx512>>(arguments...);
  if (path == Isa::Avx2) return run_avx2<Kernel<Isa::Avx2>>(arguments...);
#endif
  return Kernel<Isa::Portable>::run(arguments...);
}

/// 32 random bits for value `i` of a block (Wellons, "Prospecting for hash functions", 2018).
TAXON_INLINE std::uint32_t chance(std::uint32_t key, std::uint32_t i) {
  std::uint32_t x = key + i * 0x9E3779B9U;
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

/// Asks for the values that a kernel of blocks reads four kibibytes after this block, so that they come while
/// it computes: processors that look ahead by themselves stop at the ends of pages. There need not be any.
TAXON_INLINE void prefetch_after(const float* block, std::size_t size) {
  constexpr std::size_t kAhead = 4096, kLine = 64, kMost = 2048;  // bytes
  const std::size_t bytes = size * sizeof(float);
  if (bytes > kMost) return;
  const auto ahead = reinterpret_cast<std::uintptr_t>(block) + kAhead;
  for (std::size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(reinterpret_cast<const void*>(ahead + i));
}

/// True if none of the values, which a kernel is about to read, is infinite or NaN.
TAXON_INLINE bool are_finite(const float* values, std::size_t count) {
  std::uint32_t beyond = 0;
  for (std::size_t i = 0; i < count; ++i)
    beyond |= beyond_finite(std::bit_cast<std::uint32_t>(values[i]) & kMagnitude);
  return beyond >> 31 == 0;
}

/// A piece's codes in bytes. The parts of a piece lie one above the other: parts are whole registers,
/// neighbours are not.
template <int kBits>
struct Codes {
  static constexpr std::size_t kParts = 8 / kBits, kLanes = kPiece / kParts;

  /// code(i): of value i.
  template <class Code>
  static TAXON_INLINE void pack(std::uint8_t* __restrict out, Code&& code) {
    std::uint32_t bytes[kLanes];  // wide, as registers have codes
    for (std::size_t l = 0; l < kLanes; ++l) {
      std::uint32_t byte = 0;
      for (std::size_t p = 0; p < kParts; ++p) byte |= code(l + p * kLanes) << p * kBits;
      bytes[l] = byte;
    }
    for (std::size_t l = 0; l < kLanes; ++l) out[l] = static_cast<std::uint8_t>(bytes[l]);
  }
  /// values := or += (code - middle) step.
  template <bool kAdd>
  static TAXON_INLINE void unpack(const std::uint8_t* __restrict in, float middle, float step,
                                  float* __restrict values) {
    for (std::size_t l = 0; l < kLanes; ++l)
      for (std::size_t p = 0; p < kParts; ++p) {
        const std::int32_t code = in[l] >> p * kBits & ((1 << kBits) - 1);
        const float value = (static_cast<float>(code) - middle) * step;
        const std::size_t i = l + p * kLanes;
        values[i] = kAdd ? values[i] + value : value;
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
