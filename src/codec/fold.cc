#include "codec/fold.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codec/wire.h"

namespace taxon::codec {
namespace {

constexpr std::size_t kChunk = kMostNeighbours;  // values whose signs are one hash

struct Signs {
  TAXON_INLINE static void flip(const float* values, std::uint64_t signs, float* signed_values) {
    for (std::size_t half = 0; half < 2; ++half) {
      const auto bits = static_cast<std::uint32_t>(signs >> 32 * half);
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::size_t i = 32 * half + lane;
        signed_values[i] =
            std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[i]) ^ (bits >> lane & 1) << 31);
      }
    }
  }
};

/// Sums in pairs, then of pairs: an order that registers keep.
struct Fold {
  TAXON_INLINE static void run(const float* values, std::size_t chunks, std::size_t neighbours,
                               std::uint64_t key, float* sums) {
    for (std::size_t chunk = 0; chunk < chunks; ++chunk, values += kChunk) {
      alignas(64) float level[std::bit_width(kChunk)][kChunk];
      Signs::flip(values, mix(key + chunk), level[0]);
      std::size_t depth = 0, size = kChunk;
      for (; kChunk / size < neighbours; ++depth) {
        size /= 2;
        for (std::size_t i = 0; i < size; ++i)
          level[depth + 1][i] = level[depth][2 * i] + level[depth][2 * i + 1];
      }
      for (std::size_t i = 0; i < size; ++i) sums[i] = level[depth][i];
      sums += size;
    }
  }
};

}  // namespace

void fold(std::span<const float> values, std::size_t neighbours, std::uint64_t key, std::span<float> sums,
          Isa path) {
  TAXON_CHECK(std::has_single_bit(neighbours) && neighbours <= kMostNeighbours, neighbours);
  TAXON_CHECK(sums.size() == folded_size(values.size(), neighbours), sums.size(), " sums");
  const std::uint64_t signs = mix(key ^ 0x666f6c64U);
  const std::size_t whole = values.size() / kChunk;
  run_on<Fold>(path, values.data(), whole, neighbours, signs, sums.data());
  const std::span<const float> rest = values.subspan(whole * kChunk);
  if (rest.empty()) return;
  float padded[kChunk] = {}, last[kChunk];
  std::copy(rest.begin(), rest.end(), padded);
  Fold::run(padded, 1, neighbours, signs + whole, last);
  const std::span<float> to = sums.subspan(whole * (kChunk / neighbours));
  std::copy(last, last + to.size(), to.begin());
}

}  // namespace taxon::codec
