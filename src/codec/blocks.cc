#include "codec/blocks.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codec/scan.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

/// Values that go through the registers together. Every block is whole pieces, padded with zeros at the end.
constexpr std::size_t kPiece = 64;

/// Below this, the inverse of a scale overflows: such blocks travel as zeros, and a memory of errors keeps
/// them.
constexpr float kLeastScale = 0x1p-118F;

TAXON_INLINE std::uint32_t largest(const float* values, std::size_t count) {
  constexpr std::size_t kLanes = 32;
  std::uint32_t most[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i + l]) & kMagnitude;
      most[l] = most[l] > magnitude ? most[l] : magnitude;
    }
  std::uint32_t all = 0;
  for (; i < count; ++i) all = std::max(all, std::bit_cast<std::uint32_t>(values[i]) & kMagnitude);
  for (std::uint32_t lane : most) all = std::max(all, lane);
  return all;
}

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

/// A piece of a block with one scale. Codes count from -levels, as 0.
template <int kBits>
struct Scaled {
  std::uint32_t key;
  float inverse, step, middle;
  std::uint32_t most;

  Scaled(float scale, const BlockShape& shape, std::uint32_t key)
      : key(key),
        inverse(static_cast<float>(shape.levels) / scale),
        step(scale / static_cast<float>(shape.levels)),
        middle(static_cast<float>(shape.levels)),
        most(static_cast<std::uint32_t>(2 * shape.levels)) {}

  template <bool kByChance>
  TAXON_INLINE void encode(const float* values, std::uint32_t first, std::uint8_t* out, float* rest) const {
    std::uint8_t codes[kPiece];
    for (std::size_t i = 0; i < kPiece; ++i) {
      float up = 0.5F;
      if constexpr (kByChance)
        up = static_cast<float>(
                 static_cast<std::int32_t>(chance(key, first + static_cast<std::uint32_t>(i)) >> 8)) *
             0x1p-24F;
      const float place = values[i] * inverse + middle + up;
      const auto code = static_cast<std::uint32_t>(static_cast<std::int32_t>(place));
      codes[i] = static_cast<std::uint8_t>(code < most ? code : most);
    }
    Codes<kBits>::pack(codes, out);
    if (rest == nullptr) return;
    for (std::size_t i = 0; i < kPiece; ++i)
      rest[i] = values[i] - (static_cast<float>(static_cast<std::int32_t>(codes[i])) - middle) * step;
  }
};

/// Calls body(first, count, piece bytes) for each piece of the block; the last may be shorter than kPiece.
template <int kBits, class Body>
TAXON_INLINE void for_pieces(std::size_t size, Body&& body) {
  for (std::size_t first = 0; first < size; first += kPiece)
    body(first, std::min(kPiece, size - first), first * kBits / 8);
}

template <int kBits, bool kByChance>
struct Encode {
  static TAXON_INLINE void run(float* values, std::size_t count, float* scales, std::uint8_t* codes,
                               const BlockShape* shape, bool keep_rest, std::uint64_t key) {
    const std::size_t bytes = shape->block * kBits / 8;
    for (std::size_t b = 0; b * shape->block < count; ++b, codes += bytes) {
      float* block = values + b * shape->block;
      const std::size_t size = std::min(shape->block, count - b * shape->block);
      float scale = std::bit_cast<float>(largest(block, size));
      if (scale < kLeastScale) scale = 0;
      scales[b] = scale;
      if (scale == 0) {
        std::fill_n(codes, bytes, std::uint8_t{0});
        continue;
      }
      const Scaled<kBits> scaled(scale, *shape, static_cast<std::uint32_t>(mix(key ^ b)));
      for_pieces<kBits>(
          size, [&](std::size_t first, std::size_t length, std::size_t at) __attribute__((always_inline)) {
            float padded_values[kPiece];
            float* from = block + first;
            if (length < kPiece) {
              std::fill_n(std::copy_n(from, length, padded_values), kPiece - length, 0.0F);
              from = padded_values;
            }
            float* rest = keep_rest ? from : nullptr;
            scaled.template encode<kByChance>(from, static_cast<std::uint32_t>(first), codes + at, rest);
            if (length < kPiece && keep_rest) std::copy_n(padded_values, length, block + first);
          });
      const std::size_t used = (size + kPiece - 1) / kPiece * kPiece * kBits / 8;
      std::fill(codes + used, codes + bytes, std::uint8_t{0});
    }
  }
};

template <int kBits, bool kAdd>
struct Decode {
  static TAXON_INLINE void run(const float* scales, const std::uint8_t* codes, const BlockShape* shape,
                               float* values, std::size_t count) {
    const std::size_t bytes = shape->block * kBits / 8;
    const float middle = static_cast<float>(shape->levels);
    for (std::size_t b = 0; b * shape->block < count; ++b, codes += bytes) {
      float* block = values + b * shape->block;
      const std::size_t size = std::min(shape->block, count - b * shape->block);
      const float scale = scales[b], step = scale / middle;
      if (scale == 0) {
        if constexpr (!kAdd) std::fill_n(block, size, 0.0F);
        continue;
      }
      for_pieces<kBits>(
          size, [&](std::size_t first, std::size_t length, std::size_t at) __attribute__((always_inline)) {
            float padded_values[kPiece];
            float* to = block + first;
            if (length < kPiece) {
              std::fill_n(std::copy_n(to, length, padded_values), kPiece - length, 0.0F);
              to = padded_values;
            }
            std::uint8_t piece[kPiece];
            Codes<kBits>::unpack(codes + at, piece);
            for (std::size_t i = 0; i < kPiece; ++i) {
              const float value = (static_cast<float>(static_cast<std::int32_t>(piece[i])) - middle) * step;
              to[i] = kAdd ? to[i] + value : value;
            }
            if (length < kPiece) std::copy_n(padded_values, length, block + first);
          });
    }
  }
};

template <int kBits, bool kByChance>
void encode_as(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
               const BlockShape& shape, bool keep_rest, std::uint64_t key, Path path) {
  run_on<Encode<kBits, kByChance>>(path, values.data(), values.size(), scales.data(), codes.data(), &shape,
                                   keep_rest, key);
}

template <int kBits, bool kAdd>
void decode_as(std::span<const float> scales, std::span<const std::uint8_t> codes, const BlockShape& shape,
               std::span<float> values, Path path) {
  run_on<Decode<kBits, kAdd>>(path, scales.data(), codes.data(), &shape, values.data(), values.size());
}

struct BitsRow {
  int bits;
  decltype(&encode_as<8, false>) to_nearest, by_chance;
  decltype(&decode_as<8, false>) assign, add;
};
constexpr BitsRow kBitsRows[] = {
    {2, encode_as<2, false>, encode_as<2, true>, decode_as<2, false>, decode_as<2, true>},
    {4, encode_as<4, false>, encode_as<4, true>, decode_as<4, false>, decode_as<4, true>},
    {8, encode_as<8, false>, encode_as<8, true>, decode_as<8, false>, decode_as<8, true>},
};

const BitsRow& row_of(const BlockShape& shape) {
  const BitsRow* row = std::find_if(std::begin(kBitsRows), std::end(kBitsRows),
                                    [&](const BitsRow& r) { return r.bits == shape.bits; });
  TAXON_CHECK(row != std::end(kBitsRows) && shape.block % kPiece == 0 && shape.block > 0, shape.bits,
              " bits, blocks of ", shape.block);
  return *row;
}

}  // namespace

void encode_blocks(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
                   const BlockShape& shape, bool keep_rest, std::uint64_t key, Path path) {
  const BitsRow& row = row_of(shape);
  TAXON_CHECK(scales.size() == shape.blocks(values.size()) &&
              codes.size() == shape.code_bytes(values.size()));
  (shape.by_chance ? row.by_chance : row.to_nearest)(values, scales, codes, shape, keep_rest, key, path);
}

void decode_blocks(std::span<const float> scales, std::span<const std::uint8_t> codes,
                   const BlockShape& shape, bool add, std::span<float> values, Path path) {
  const BitsRow& row = row_of(shape);
  TAXON_CHECK(scales.size() == shape.blocks(values.size()) &&
              codes.size() == shape.code_bytes(values.size()));
  (add ? row.add : row.assign)(scales, codes, shape, values, path);
}

}  // namespace taxon::codec
