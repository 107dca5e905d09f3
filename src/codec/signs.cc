#include "codec/signs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "codec/packing.h"
#include "codec/scan.h"
#include "codec/wire.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace taxon::codec {
namespace {

/// What the two signs stand for in a block.
struct Levels {
  float plus = 1, minus = -1;
};

constexpr std::size_t kLanes = 32;

TAXON_INLINE float fold(float* sums) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}

// Sums are in an order that does not depend on the width of registers, and of shares: a block of large values
// may have an infinite sum.

TAXON_INLINE Levels mean_magnitude(const float* values, std::size_t count) {
  const float share = 1.0F / static_cast<float>(count);
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l)
      sums[l] += std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i + l]) & kMagnitude) * share;
  for (; i < count; ++i)
    sums[i % kLanes] += std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i]) & kMagnitude) * share;
  const float mean = fold(sums);
  return {mean, -mean};
}

TAXON_INLINE Levels two_means(const float* values, std::size_t count) {
  const float share = 1.0F / static_cast<float>(count);
  float plus[kLanes] = {}, minus[kLanes] = {};
  std::uint32_t negative[kLanes] = {};
  auto take = [&](std::size_t l, float value) __attribute__((always_inline)) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t below = 0U - (bits >> 31);  // all bits of it, or none
    plus[l] += std::bit_cast<float>(bits & ~below) * share;
    minus[l] += std::bit_cast<float>(bits & below) * share;
    negative[l] += bits >> 31;
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) take(l, values[i + l]);
  for (; i < count; ++i) take(i % kLanes, values[i]);
  std::size_t below = 0;
  for (std::uint32_t lane : negative) below += lane;
  constexpr float kMost = std::numeric_limits<float>::max();
  auto mean = [&](float* sums, std::size_t of) {
    if (of == 0) return 0.0F;
    return std::clamp(fold(sums) * (static_cast<float>(count) / static_cast<float>(of)), -kMost, kMost);
  };
  return {mean(plus, count - below), mean(minus, below)};
}

template <Sign kSign>
TAXON_INLINE Levels levels_of(const float* values, std::size_t count) {
  if constexpr (kSign == Sign::MeanMagnitude) return mean_magnitude(values, count);
  if constexpr (kSign == Sign::TwoMeans) return two_means(values, count);
  return {};
}

template <Sign kSign>
TAXON_INLINE void write_levels(const Levels& levels, float* scales) {
  if constexpr (kSign != Sign::One) scales[0] = levels.plus;
  if constexpr (kSign == Sign::TwoMeans) scales[1] = levels.minus;
}

template <Sign kSign>
TAXON_INLINE Levels read_levels(const float* scales) {
  if constexpr (kSign == Sign::MeanMagnitude) return {scales[0], -scales[0]};
  if constexpr (kSign == Sign::TwoMeans) return {scales[0], scales[1]};
  return {};
}

TAXON_INLINE bool has_zero(const float* values) {
  std::uint32_t zeros = 0;
  for (std::size_t i = 0; i < kPiece; ++i)
    zeros |= (std::bit_cast<std::uint32_t>(values[i]) & kMagnitude) == 0 ? 1U : 0U;
  return zeros != 0;
}

TAXON_INLINE void pack_bits(const std::uint32_t* bits, std::uint8_t* out) {
  for (std::size_t w = 0; w < kPiece / 32; ++w) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 32; ++i) word |= bits[32 * w + i] << i;
    for (std::size_t byte = 0; byte < 4; ++byte)
      out[4 * w + byte] = static_cast<std::uint8_t>(word >> 8 * byte);
  }
}

/// A piece whose zeros are drawn.
TAXON_INLINE void draw(const float* values, std::uint32_t key, std::uint32_t first, std::uint8_t* out) {
  std::uint32_t negative[kPiece];
  for (std::size_t i = 0; i < kPiece; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    negative[i] =
        ((bits & kMagnitude) == 0 ? chance(key, first + static_cast<std::uint32_t>(i)) : bits) >> 31;
  }
  pack_bits(negative, out);
}

/// The signs of a piece, a bit each.
template <Isa kPath>
struct SignsOf {
  static TAXON_INLINE void pack(const float* values, std::uint8_t* out) {
    std::uint32_t negative[kPiece];
    for (std::size_t i = 0; i < kPiece; ++i) negative[i] = std::bit_cast<std::uint32_t>(values[i]) >> 31;
    pack_bits(negative, out);
  }
};

#if defined(__x86_64__)
template <>
struct SignsOf<Isa::Avx2> {
  TAXON_AVX2 static inline void pack(const float* values, std::uint8_t* out) {
    for (std::size_t i = 0; i < kPiece; i += 8)
      out[i / 8] = static_cast<std::uint8_t>(_mm256_movemask_ps(_mm256_loadu_ps(values + i)));
  }
};
template <>
struct SignsOf<Isa::Avx512> {
  TAXON_AVX512 static inline void pack(const float* values, std::uint8_t* out) {
    for (std::size_t i = 0; i < kPiece; i += 16) {
      const __mmask16 signs = _mm512_movepi32_mask(_mm512_loadu_si512(values + i));
      std::memcpy(out + i / 8, &signs, sizeof(signs));
    }
  }
};
#endif

/// Magnitudes that are not finite make a mean that is not either.
template <Sign kSign>
TAXON_INLINE bool are_finite(const Levels& levels, const float* values, std::size_t count) {
  if (kSign == Sign::MeanMagnitude && levels.plus <= std::numeric_limits<float>::max()) return true;
  return codec::are_finite(values, count);
}

TAXON_INLINE void unpack_bits(const std::uint8_t* in, std::uint32_t* bits) {
  for (std::size_t w = 0; w < kPiece / 32; ++w) {
    std::uint32_t word = 0;
    for (std::size_t byte = 0; byte < 4; ++byte) word |= std::uint32_t{in[4 * w + byte]} << 8 * byte;
    for (std::size_t i = 0; i < 32; ++i) bits[32 * w + i] = word >> i & 1;
  }
}

template <Sign kSign, Isa kPath>
struct Encode {
  static TAXON_INLINE std::size_t run(float* values, std::size_t count, float* scales, std::uint8_t* codes,
                                      std::size_t block_size, bool keep_rest, std::uint64_t key) {
    const std::size_t bytes = block_size / 8;
    for (std::size_t b = 0; b * block_size < count; ++b, codes += bytes) {
      float* block = values + b * block_size;
      const std::size_t size = std::min(block_size, count - b * block_size);
      prefetch_after(block, size);
      const Levels levels = levels_of<kSign>(block, size);
      if (!are_finite<kSign>(levels, block, size)) return b * block_size;
      write_levels<kSign>(levels, scales + b * static_cast<std::size_t>(kSign));
      const auto block_key = static_cast<std::uint32_t>(mix(key ^ b));
      for_pieces<1>(
          size, [&](std::size_t first, std::size_t length, std::size_t at) __attribute__((always_inline)) {
            float padded_values[kPiece];
            float* from = block + first;
            if (length < kPiece) {
              std::fill_n(std::copy_n(from, length, padded_values), kPiece - length, 0.0F);
              from = padded_values;
            }
            if (kSign == Sign::One && has_zero(from))
              draw(from, block_key, static_cast<std::uint32_t>(first), codes + at);
            else
              SignsOf<kPath>::pack(from, codes + at);
            if (!keep_rest) return;
            std::uint32_t negative[kPiece];
            unpack_bits(codes + at, negative);
            for (std::size_t i = 0; i < kPiece; ++i) from[i] -= negative[i] ? levels.minus : levels.plus;
            if (length < kPiece) std::copy_n(padded_values, length, block + first);
          });
      const std::size_t used = (size + kPiece - 1) / kPiece * kPiece / 8;
      std::fill(codes + used, codes + bytes, std::uint8_t{0});
    }
    return count;
  }
};

template <Sign kSign, bool kAdd>
struct Decode {
  static TAXON_INLINE void run(const float* scales, const std::uint8_t* codes, std::size_t block_size,
                               float* values, std::size_t count) {
    const std::size_t bytes = block_size / 8;
    for (std::size_t b = 0; b * block_size < count; ++b, codes += bytes) {
      float* block = values + b * block_size;
      const std::size_t size = std::min(block_size, count - b * block_size);
      const Levels levels = read_levels<kSign>(scales + b * static_cast<std::size_t>(kSign));
      for_pieces<1>(
          size, [&](std::size_t first, std::size_t length, std::size_t at) __attribute__((always_inline)) {
            float padded_values[kPiece];
            float* to = block + first;
            if (length < kPiece) {
              std::fill_n(std::copy_n(to, length, padded_values), kPiece - length, 0.0F);
              to = padded_values;
            }
            std::uint32_t negative[kPiece];
            unpack_bits(codes + at, negative);
            for (std::size_t i = 0; i < kPiece; ++i) {
              const float value = negative[i] ? levels.minus : levels.plus;
              to[i] = kAdd ? to[i] + value : value;
            }
            if (length < kPiece) std::copy_n(padded_values, length, block + first);
          });
    }
  }
};

template <Sign kSign>
class Signs final : public BlockKernel {
 public:
  explicit Signs(std::size_t block) : BlockKernel({block, static_cast<std::size_t>(kSign), 1}) {}
  std::size_t encode(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
                     bool keep_rest, std::uint64_t key, Isa path) const override {
    return run_variant_on<EncodeOn>(path, values.data(), values.size(), scales.data(), codes.data(),
                                    layout().block, keep_rest, key);
  }
  void decode(std::span<const float> scales, std::span<const std::uint8_t> codes, bool add,
              std::span<float> values, Isa path) const override {
    const auto run =
        add ? run_on<Decode<kSign, true>, const float*, const std::uint8_t*, std::size_t, float*, std::size_t>
            : run_on<Decode<kSign, false>, const float*, const std::uint8_t*, std::size_t, float*,
                     std::size_t>;
    run(path, scales.data(), codes.data(), layout().block, values.data(), values.size());
  }

 private:
  template <Isa kPath>
  using EncodeOn = Encode<kSign, kPath>;
};

}  // namespace

std::unique_ptr<const BlockKernel> signs(std::size_t block, Sign sign) {
  TAXON_CHECK(block % kPiece == 0 && block > 0, "blocks of ", block);
  switch (sign) {
    case Sign::One:
      return std::make_unique<Signs<Sign::One>>(block);
    case Sign::MeanMagnitude:
      return std::make_unique<Signs<Sign::MeanMagnitude>>(block);
    case Sign::TwoMeans:
      return std::make_unique<Signs<Sign::TwoMeans>>(block);
  }
  TAXON_CHECK(false, "a sign that stands for nothing");
}

}  // namespace taxon::codec
