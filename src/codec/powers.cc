#include "codec/powers.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codec/packing.h"
#include "codec/scan.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

constexpr std::uint32_t kExponentBits = 23;
constexpr std::uint32_t kMantissa = (1U << kExponentBits) - 1;
constexpr std::uint32_t kPowers = 127;
constexpr std::uint32_t kLargest = 254U << kExponentBits;  // 2^127

TAXON_INLINE std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

/// The exponent below the least power of a block whose largest magnitude is `most`: code c means exponent
/// base + c.
TAXON_INLINE std::uint32_t base_of(std::uint32_t most) {
  const std::uint32_t up = std::min(most + kMantissa, kLargest) >> kExponentBits;
  return up > kPowers ? up - kPowers : 0;
}

struct Powers {
  std::uint32_t base, key;
  float inverse;  // of the least power

  Powers(std::uint32_t base, std::uint32_t key)
      : base(base), key(key), inverse(std::bit_cast<float>((253U - base) << kExponentBits)) {}

  TAXON_INLINE std::uint32_t encode(float value, std::uint32_t place) const {
    const std::uint32_t magnitude = bits_of(value) & kMagnitude, draw = chance(key, place);
    // The mantissa is the chance that adding random bits carries into the exponent.
    const std::uint32_t carried = std::min(magnitude + (draw >> 9), kLargest | kMantissa) >> kExponentBits;
    const float uniform = static_cast<float>(static_cast<std::int32_t>(draw >> 8)) * 0x1p-24F;
    const bool small = magnitude >> kExponentBits <= base && base > 0;
    const std::uint32_t least = uniform < std::bit_cast<float>(magnitude) * inverse ? 1U : 0U;
    return (small ? least : carried - base) | (bits_of(value) >> 31) << 7;
  }
};

TAXON_INLINE float power(std::uint32_t code, std::uint32_t base) {
  const std::uint32_t steps = code & 127;
  const std::uint32_t bits = steps == 0 ? 0 : (base + steps) << kExponentBits;
  return std::bit_cast<float>(bits | (code >> 7) << 31);
}

struct Encode {
  static TAXON_INLINE std::size_t run(float* values, std::size_t count, float* scales, std::uint8_t* codes,
                                      std::size_t block_size, bool keep_rest, std::uint64_t key) {
    for (std::size_t b = 0; b * block_size < count; ++b, codes += block_size) {
      float* block = values + b * block_size;
      const std::size_t size = std::min(block_size, count - b * block_size);
      std::uint32_t most = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint32_t magnitude = bits_of(block[i]) & kMagnitude;
        most = most > magnitude ? most : magnitude;
      }
      if (most >= kInfinity) return b * block_size;
      const Powers powers(base_of(most), static_cast<std::uint32_t>(mix(key ^ b)));
      scales[b] = static_cast<float>(powers.base);
      std::uint32_t wide[kPiece];
      for (std::size_t first = 0; first < size; first += kPiece) {
        const std::size_t length = std::min(kPiece, size - first);
        float* from = block + first;
        for (std::size_t i = 0; i < length; ++i)
          wide[i] = powers.encode(from[i], static_cast<std::uint32_t>(first + i));
        for (std::size_t i = 0; i < length; ++i) codes[first + i] = static_cast<std::uint8_t>(wide[i]);
        if (!keep_rest) continue;
        for (std::size_t i = 0; i < length; ++i) from[i] -= power(wide[i], powers.base);
      }
      std::fill(codes + size, codes + block_size, std::uint8_t{0});
    }
    return count;
  }
};

template <bool kAdd>
struct Decode {
  static TAXON_INLINE void run(const float* scales, const std::uint8_t* codes, std::size_t block_size,
                               float* values, std::size_t count) {
    for (std::size_t b = 0; b * block_size < count; ++b, codes += block_size) {
      float* block = values + b * block_size;
      const std::size_t size = std::min(block_size, count - b * block_size);
      // A forged base makes values that are not finite at worst.
      const std::uint32_t base =
          scales[b] >= 0 && scales[b] <= kPowers ? static_cast<std::uint32_t>(scales[b]) : 0;
      for (std::size_t i = 0; i < size; ++i) {
        const float value = power(codes[i], base);
        block[i] = kAdd ? block[i] + value : value;
      }
    }
  }
};

class PowersOfTwo final : public BlockKernel {
 public:
  explicit PowersOfTwo(std::size_t block) : BlockKernel({block, 1, 8}) {}
  double encode_flops() const override { return 16; }
  std::size_t encode(std::span<float> values, std::span<float> scales, std::span<std::uint8_t> codes,
                     bool keep_rest, std::uint64_t key, Isa path) const override {
    return run_on<Encode>(path, values.data(), values.size(), scales.data(), codes.data(), layout().block,
                          keep_rest, key);
  }
  void decode(std::span<const float> scales, std::span<const std::uint8_t> codes, bool add,
              std::span<float> values, Isa path) const override {
    const std::size_t block = layout().block;
    if (add)
      run_on<Decode<true>>(path, scales.data(), codes.data(), block, values.data(), values.size());
    else
      run_on<Decode<false>>(path, scales.data(), codes.data(), block, values.data(), values.size());
  }
};

}  // namespace

std::unique_ptr<const BlockKernel> powers_of_two(std::size_t block) {
  TAXON_CHECK(block % kPiece == 0 && block > 0, "blocks of ", block);
  return std::make_unique<PowersOfTwo>(block);
}

}  // namespace taxon::codec
