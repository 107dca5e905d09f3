#include "codec/collect.h"

#include <bit>

#include "codec/scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace taxon::codec {
namespace {

/// Values that are looked at together: most groups hold none that matters.
constexpr std::size_t kGroup = 64;
static_assert(kGroup <= kCollectSlack);

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & kMagnitude; }

std::size_t collect_tail(std::span<const float> values, std::size_t first, std::uint32_t threshold,
                         std::uint64_t* keys, std::size_t found) {
  for (std::size_t i = first; i < values.size(); ++i)
    if (magnitude(values[i]) >= threshold)
      keys[found++] = key_of(magnitude(values[i]), static_cast<std::uint32_t>(i));
  return found;
}

std::size_t collect_portable(std::span<const float> values, std::uint32_t threshold,
                             std::span<std::uint64_t> keys) {
  const std::size_t limit = keys.size() - kCollectSlack;
  std::size_t found = 0, i = 0;
  for (; i + kGroup <= values.size() && found <= limit; i += kGroup) {
    std::uint32_t most = 0;
    for (std::size_t l = 0; l < kGroup; ++l) {
      const std::uint32_t m = magnitude(values[i + l]);
      most = most > m ? most : m;
    }
    if (most >= threshold) found = collect_tail(values.first(i + kGroup), i, threshold, keys.data(), found);
  }
  return found > limit ? found : collect_tail(values, i, threshold, keys.data(), found);
}

#if defined(__x86_64__)
TAXON_AVX2 std::size_t collect_avx2(std::span<const float> values, std::uint32_t threshold,
                                    std::span<std::uint64_t> keys) {
  const std::size_t limit = keys.size() - kCollectSlack;
  const __m256i all = _mm256_set1_epi32(static_cast<int>(kMagnitude));
  // Magnitudes have no sign bit, so the signed comparison serves.
  const __m256i below = _mm256_set1_epi32(static_cast<int>(threshold) - 1);
  std::size_t found = 0, i = 0;
  for (; i + kGroup <= values.size() && found <= limit; i += kGroup) {
    __m256i reached[kGroup / 8];
    __m256i any = _mm256_setzero_si256();
    for (std::size_t v = 0; v < kGroup / 8; ++v) {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.data() + i + 8 * v));
      reached[v] = _mm256_cmpgt_epi32(_mm256_and_si256(bits, all), below);
      any = _mm256_or_si256(any, reached[v]);
    }
    if (_mm256_testz_si256(any, any)) continue;
    for (std::size_t v = 0; v < kGroup / 8; ++v) {
      auto lanes = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(reached[v])));
      for (; lanes != 0; lanes &= lanes - 1) {
        const std::size_t at = i + 8 * v + static_cast<std::size_t>(std::countr_zero(lanes));
        keys[found++] = key_of(magnitude(values[at]), static_cast<std::uint32_t>(at));
      }
    }
  }
  return found > limit ? found : collect_tail(values, i, threshold, keys.data(), found);
}

/// Sixteen keys of places from `first`, those of `lanes` alone, one after the other.
TAXON_AVX512 inline std::size_t compress_keys(__m512i magnitudes, __mmask16 lanes, std::uint32_t first,
                                              std::uint64_t* to) {
  const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i places = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first)), steps);
  const __m512i inverted = _mm512_xor_si512(places, _mm512_set1_epi32(-1));
  // Compressed in registers: storing compressed lanes is slow on some processors.
  const __m512i m = _mm512_maskz_compress_epi32(lanes, magnitudes);
  const __m512i p = _mm512_maskz_compress_epi32(lanes, inverted);
  const __m512i low = _mm512_permutex2var_epi32(
      p, _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23), m);
  const __m512i high = _mm512_permutex2var_epi32(
      p, _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31), m);
  _mm512_storeu_si512(to, low);
  const auto count = static_cast<std::size_t>(std::popcount(static_cast<unsigned>(lanes)));
  if (count > 8) _mm512_storeu_si512(to + 8, high);
  return count;
}

TAXON_AVX512 std::size_t collect_avx512(std::span<const float> values, std::uint32_t threshold,
                                        std::span<std::uint64_t> keys) {
  const std::size_t limit = keys.size() - kCollectSlack;
  const __m512i all = _mm512_set1_epi32(static_cast<int>(kMagnitude));
  const __m512i least = _mm512_set1_epi32(static_cast<int>(threshold));
  std::size_t found = 0, i = 0;
  for (; i + kGroup <= values.size() && found <= limit; i += kGroup) {
    __m512i magnitudes[kGroup / 16];
    __mmask16 reached[kGroup / 16];
    unsigned any = 0;
    for (std::size_t v = 0; v < kGroup / 16; ++v) {
      magnitudes[v] = _mm512_and_si512(_mm512_loadu_si512(values.data() + i + 16 * v), all);
      reached[v] = _mm512_cmpge_epu32_mask(magnitudes[v], least);
      any |= reached[v];
    }
    if (any == 0) continue;
    for (std::size_t v = 0; v < kGroup / 16; ++v)
      if (reached[v] != 0)
        found += compress_keys(magnitudes[v], reached[v], static_cast<std::uint32_t>(i + 16 * v),
                               keys.data() + found);
  }
  return found > limit ? found : collect_tail(values, i, threshold, keys.data(), found);
}
#endif

}  // namespace

std::size_t collect_at_least(std::span<const float> values, std::uint32_t threshold,
                             std::span<std::uint64_t> keys, Isa path) {
  if (keys.size() < 2 * kCollectSlack) return keys.size();
#if defined(__x86_64__)
  if (path == Isa::Avx512) return collect_avx512(values, threshold, keys);
  if (path == Isa::Avx2) return collect_avx2(values, threshold, keys);
#endif
  return collect_portable(values, threshold, keys);
}

}  // namespace taxon::codec
