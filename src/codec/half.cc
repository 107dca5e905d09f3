#include "codec/half.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codec/scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace taxon::codec {
namespace {

constexpr float kMostFloat16 = 65504.0F;
constexpr std::uint32_t kMostBFloat16 = 0x7f7f0000U;

enum class What { Assign, Add, Subtract };

template <What kWhat>
TAXON_INLINE float combine(float value, float half) {
  if constexpr (kWhat == What::Add) return value + half;
  if constexpr (kWhat == What::Subtract) return value - half;
  return half;
}

struct NarrowBFloat16 {
  static TAXON_INLINE std::uint32_t run(const float* __restrict values, std::uint16_t* __restrict halves,
                                        std::size_t count) {
    std::uint32_t beyond = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto word = std::bit_cast<std::uint32_t>(values[i]);
      const std::uint32_t sign = word & 0x80000000U, magnitude = word & 0x7fffffffU;
      const std::uint32_t rounded = magnitude + 0x7fffU + (magnitude >> 16 & 1U);
      const std::uint32_t kept = rounded < kMostBFloat16 + 0xffffU ? rounded : kMostBFloat16;
      halves[i] = static_cast<std::uint16_t>((sign | kept) >> 16);
      beyond |= beyond_finite(magnitude);
    }
    return beyond;
  }
};

template <What kWhat>
struct WidenBFloat16 {
  static TAXON_INLINE void run(const std::uint16_t* __restrict halves, float* __restrict values,
                               std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      values[i] =
          combine<kWhat>(values[i], std::bit_cast<float>(static_cast<std::uint32_t>(halves[i]) << 16));
  }
};

std::uint32_t narrow_float16(const float* values, std::uint16_t* halves, std::size_t count) {
  std::uint32_t beyond = 0;
  for (std::size_t i = 0; i < count; ++i) {
    halves[i] = std::bit_cast<std::uint16_t>(
        static_cast<_Float16>(std::clamp(values[i], -kMostFloat16, kMostFloat16)));
    beyond |= beyond_finite(std::bit_cast<std::uint32_t>(values[i]) & kMagnitude);
  }
  return beyond;
}

template <What kWhat>
void widen_float16(const std::uint16_t* halves, float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    values[i] = combine<kWhat>(values[i], static_cast<float>(std::bit_cast<_Float16>(halves[i])));
}

#if defined(__x86_64__)
constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

TAXON_AVX2 std::uint32_t narrow_float16_avx2(const float* values, std::uint16_t* halves, std::size_t count) {
  const __m256 most = _mm256_set1_ps(kMostFloat16), least = _mm256_set1_ps(-kMostFloat16);
  const __m256i all = _mm256_set1_epi32(static_cast<int>(kMagnitude));
  const __m256i step = _mm256_set1_epi32(static_cast<int>(beyond_finite(0)));
  __m256i beyond = _mm256_setzero_si256();
  for (std::size_t i = 0; i < count; i += 8) {
    const __m256 value = _mm256_loadu_ps(values + i);
    const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(value), all);
    beyond = _mm256_or_si256(beyond, _mm256_add_epi32(magnitude, step));
    const __m256 within = _mm256_max_ps(_mm256_min_ps(value, most), least);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), _mm256_cvtps_ph(within, kToNearest));
  }
  return _mm256_movemask_ps(_mm256_castsi256_ps(beyond)) == 0 ? 0 : beyond_finite(kInfinity);
}
TAXON_AVX512 std::uint32_t narrow_float16_avx512(const float* values, std::uint16_t* halves,
                                                 std::size_t count) {
  const __m512 most = _mm512_set1_ps(kMostFloat16), least = _mm512_set1_ps(-kMostFloat16);
  const __m512i all = _mm512_set1_epi32(static_cast<int>(kMagnitude));
  const __m512i step = _mm512_set1_epi32(static_cast<int>(beyond_finite(0)));
  __m512i beyond = _mm512_setzero_si512();
  for (std::size_t i = 0; i < count; i += 16) {
    const __m512 value = _mm512_loadu_ps(values + i);
    const __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(value), all);
    beyond = _mm512_or_si512(beyond, _mm512_add_epi32(magnitude, step));
    const __m512 within = _mm512_max_ps(_mm512_min_ps(value, most), least);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(halves + i), _mm512_cvtps_ph(within, kToNearest));
  }
  return static_cast<std::uint32_t>(_mm512_reduce_or_epi32(beyond));
}

template <What kWhat>
TAXON_AVX2 void widen_float16_avx2(const std::uint16_t* halves, float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 8) {
    __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i)));
    if constexpr (kWhat == What::Add) wide = _mm256_add_ps(_mm256_loadu_ps(values + i), wide);
    if constexpr (kWhat == What::Subtract) wide = _mm256_sub_ps(_mm256_loadu_ps(values + i), wide);
    _mm256_storeu_ps(values + i, wide);
  }
}
template <What kWhat>
TAXON_AVX512 void widen_float16_avx512(const std::uint16_t* halves, float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    __m512 wide = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + i)));
    if constexpr (kWhat == What::Add) wide = _mm512_add_ps(_mm512_loadu_ps(values + i), wide);
    if constexpr (kWhat == What::Subtract) wide = _mm512_sub_ps(_mm512_loadu_ps(values + i), wide);
    _mm512_storeu_ps(values + i, wide);
  }
}
#endif

template <What kWhat>
void widen_as(std::span<const std::uint16_t> halves, std::span<float> values, Half kind, Isa path) {
  TAXON_CHECK(halves.size() == values.size(), halves.size(), " halves of ", values.size());
  if (kind == Half::BFloat16)
    return run_on<WidenBFloat16<kWhat>>(path, halves.data(), values.data(), values.size());
  std::size_t whole = 0;
#if defined(__x86_64__)
  if (path != Isa::Portable) whole = values.size() / 16 * 16;
  if (path == Isa::Avx512) widen_float16_avx512<kWhat>(halves.data(), values.data(), whole);
  if (path == Isa::Avx2) widen_float16_avx2<kWhat>(halves.data(), values.data(), whole);
#endif
  widen_float16<kWhat>(halves.data() + whole, values.data() + whole, values.size() - whole);
}

}  // namespace

bool narrow(std::span<const float> values, std::span<std::uint16_t> halves, Half kind, Isa path) {
  TAXON_CHECK(halves.size() == values.size(), halves.size(), " halves of ", values.size());
  const auto all_finite = [](std::uint32_t beyond) { return beyond >> 31 == 0; };
  if (kind == Half::BFloat16)
    return all_finite(run_on<NarrowBFloat16>(path, values.data(), halves.data(), values.size()));
  std::size_t whole = 0;
  std::uint32_t beyond = 0;
#if defined(__x86_64__)
  if (path != Isa::Portable) whole = values.size() / 16 * 16;
  if (path == Isa::Avx512) beyond = narrow_float16_avx512(values.data(), halves.data(), whole);
  if (path == Isa::Avx2) beyond = narrow_float16_avx2(values.data(), halves.data(), whole);
#endif
  beyond |= narrow_float16(values.data() + whole, halves.data() + whole, values.size() - whole);
  return all_finite(beyond);
}

void widen(std::span<const std::uint16_t> halves, std::span<float> values, Half kind, bool add, Isa path) {
  add ? widen_as<What::Add>(halves, values, kind, path) : widen_as<What::Assign>(halves, values, kind, path);
}

void subtract(std::span<const std::uint16_t> halves, std::span<float> values, Half kind, Isa path) {
  widen_as<What::Subtract>(halves, values, kind, path);
}

}  // namespace taxon::codec
