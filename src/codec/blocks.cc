#include "codec/blocks.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codec/packing.h"
#include "codec/scan.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

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

/// A piece of a block with one scale. Codes count from -levels, as 0.
template <int kBits>
struct Scaled {
  std::uint32_t key;
  float inverse, step, middle;
  std::uint32_t most;

  Scaled(float scale, int levels, std::uint32_t key)
      : key(key),
        inverse(static_cast<float>(levels) / scale),
        step(scale / static_cast<float>(levels)),
        middle(static_cast<float>(levels)),
        most(static_cast<std::uint32_t>(2 * levels)) {}

  template <bool kByChance>
  TAXON_INLINE std::uint32_t code(float value, std::uint32_t place) const {
    float up = 0.5F;
    if constexpr (kByChance)
      up = static_cast<float>(static_cast<std::int32_t>(chance(key, place) >> 8)) * 0x1p-24F;
    const float level = value * inverse + middle + up;
    const auto code = static_cast<std::uint32_t>(static_cast<std::int32_t>(level));
    return code < most ? code : most;
  }
  TAXON_INLINE float value(std::uint32_t code) const {
    return (static_cast<float>(static_cast<std::int32_t>(code)) - middle) * step;
  }

  template <bool kByChance, bool kKeep>
  TAXON_INLINE void encode(float* values, std::uint32_t first, std::uint8_t* out) const {
    Codes<kBits>::pack(
        out, [&](std::size_t i) __attribute__((always_inline)) {
          const std::uint32_t c = code<kByChance>(values[i], first + static_cast<std::uint32_t>(i));
          if constexpr (kKeep) values[i] -= value(c);
          return c;
        });
  }
};

template <int kBits, bool kByChance>
struct Encode {
  static TAXON_INLINE std::size_t run(float* values, std::size_t count, float* scales, std::uint8_t* codes,
                                      std::size_t block_size, int levels, bool keep_rest, std::uint64_t key) {
    const std::size_t bytes = block_size * kBits / 8;
    for (std::size_t b = 0; b * block_size < count; ++b, codes += bytes) {
      float* block = values + b * block_size;
      const std::size_t size = std::min(block_size, count - b * block_size);
      prefetch_after(block, size);
      const std::uint32_t most = largest(block, size);
      if (most >= kInfinity) return b * block_size;
      float scale = std::bit_cast<float>(most);
      if (scale < kLeastScale) scale = 0;
      scales[b] = scale;
      if (scale == 0) {
        std::fill_n(codes, bytes, std::uint8_t{0});
        continue;
      }
      const Scaled<kBits> scaled(scale, levels, static_cast<std::uint32_t>(mix(key ^ b)));
      for_pieces<kBits>(
          size, [&](std::size_t first, std::size_t length, std::size_t at) __attribute__((always_inline)) {
            float padded_values[kPiece];
            float* from = block + first;
            if (length < kPiece) {
              std::fill_n(std::copy_n(from, length, padded_values), kPiece - length, 0.0F);
              from = padded_values;
            }
            const auto place = static_cast<std::uint32_t>(first);
            if (keep_rest)
              scaled.template encode<kByChance, true>(from, place, codes + at);
            else
              scaled.template encode<kByChance, false>(from, place, codes + at);
            if (length < kPiece && keep_rest) std::copy_n(padded_values, length, block + first);
          });
      const std::size_t used = (size + kPiece - 1) / kPiece * kPiece * kBits / 8;
      std::fill(codes + used, codes + bytes, std::uint8_t{0});
    }
    return count;
  }
};

template <int kBits, bool kAdd>
struct Decode {
  static TAXON_INLINE void run(const float* scales, const std::uint8_t* codes, std::size_t block_size,
                               int levels, float* values, std::size_t count) {
    const std::size_t bytes = block_size * kBits / 8;
    const float middle = static_cast<float>(levels);
    for (std::size_t b = 0; b * block_size < count; ++b, codes += bytes) {
      float* block = values + b * block_size;
      const std::size_t size = std::min(block_size, count - b * block_size);
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
            Codes<kBits>::template unpack<kAdd>(codes + at, middle, step, to);
            if (length < kPiece) std::copy_n(padded_values, length, block + first);
          });
    }
  }
};

template <int kBits, bool kByChance>
class EvenSteps final : public BlockKernel {
 public:
  EvenSteps(std::size_t block, int levels) : BlockKernel({block, 1, kBits}), levels_(levels) {}
  double encode_flops() const override { return kByChance ? 16 : 6; }
  std::size_t encode(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
                     bool keep_rest, std::uint64_t key, Isa path) const override {
    return run_on<Encode<kBits, kByChance>>(path, values.data(), values.size(), scales.data(), codes.data(),
                                            layout().block, levels_, keep_rest, key);
  }
  void decode(std::span<const float> scales, std::span<const std::uint8_t> codes, bool add,
              std::span<float> values, Isa path) const override {
    const std::size_t block = layout().block;
    if (add)
      run_on<Decode<kBits, true>>(path, scales.data(), codes.data(), block, levels_, values.data(),
                                  values.size());
    else
      run_on<Decode<kBits, false>>(path, scales.data(), codes.data(), block, levels_, values.data(),
                                   values.size());
  }

 private:
  const int levels_;
};

template <int kBits, bool kByChance>
std::unique_ptr<const BlockKernel> make(std::size_t block, int levels) {
  return std::make_unique<EvenSteps<kBits, kByChance>>(block, levels);
}

struct BitsRow {
  int bits;
  decltype(&make<8, false>) to_nearest, by_chance;
};
constexpr BitsRow kBitsRows[] = {{2, make<2, false>, make<2, true>},
                                 {4, make<4, false>, make<4, true>},
                                 {8, make<8, false>, make<8, true>}};

}  // namespace

std::unique_ptr<const BlockKernel> even_steps(std::size_t block, Steps steps) {
  const BitsRow* row = std::find_if(std::begin(kBitsRows), std::end(kBitsRows),
                                    [&](const BitsRow& r) { return r.bits == steps.bits; });
  TAXON_CHECK(row != std::end(kBitsRows) && block % kPiece == 0 && block > 0, steps.bits, " bits, blocks of ",
              block);
  return (steps.by_chance ? row->by_chance : row->to_nearest)(block, steps.levels);
}

}  // namespace taxon::codec
