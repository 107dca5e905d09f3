#include "codec/sketch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "codec/wire.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace taxon::codec {
namespace {

constexpr std::size_t kLanes = SketchShape::kLanes;

/// Values that stay in the first cache while every row gets them.
constexpr std::size_t kPiece = 4096;

/// Where sixteen neighbours go in one row.
struct Spot {
  std::size_t bucket;   // of the first
  std::uint32_t swap;   // lane l meets lane l ^ swap
  std::uint32_t signs;  // bit l: lane l is negated
};

TAXON_INLINE Spot spot(std::uint64_t row_key, std::uint64_t block, std::uint64_t places) {
  const std::uint64_t hash = mix(row_key + block);
  return {static_cast<std::size_t>((hash >> 32) * places >> 32) * kLanes,
          static_cast<std::uint32_t>(hash >> 16 & 15), static_cast<std::uint32_t>(hash & 0xffff)};
}

std::uint64_t row_key(std::uint64_t key, int row) {
  return mix(key ^ mix(static_cast<std::uint64_t>(row) + 1));
}

/// Exchanges after which the middle one of so many values is at the returned place, the same for scalars and
/// registers. order(a, b) puts the smaller of two at a.
template <int kRows, class Order>
TAXON_INLINE int find_median(Order&& order) {
  if constexpr (kRows == 3) {
    order(0, 1);
    order(1, 2);
    order(0, 1);
  } else if constexpr (kRows == 5) {  // Devillard, "Fast median search", 1998
    order(0, 1);
    order(3, 4);
    order(0, 3);
    order(1, 4);
    order(1, 2);
    order(2, 3);
    order(1, 2);
  } else if constexpr (kRows == 7) {
    order(0, 5);
    order(0, 3);
    order(1, 6);
    order(2, 4);
    order(0, 1);
    order(3, 5);
    order(2, 6);
    order(2, 3);
    order(3, 6);
    order(4, 5);
    order(1, 4);
    order(1, 3);
    order(3, 4);
  }
  return kRows / 2;
}

float flip(float value, std::uint32_t signs, std::size_t lane) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (signs >> lane & 1) << 31);
}

void sketch_portable(std::span<const float> values, std::size_t columns, std::uint64_t key, float* row) {
  const std::uint64_t places = columns / kLanes;
  for (std::size_t first = 0, block = 0; first < values.size(); first += kLanes, ++block) {
    const Spot at = spot(key, block, places);
    const std::size_t size = std::min(kLanes, values.size() - first);
    for (std::size_t l = 0; l < size; ++l)
      row[at.bucket + (l ^ at.swap)] += flip(values[first + l], at.signs, l);
  }
}

template <int kRows>
void estimate_portable(const float* table, std::size_t columns, const std::uint64_t* keys,
                       std::span<float> values) {
  const std::uint64_t places = columns / kLanes;
  for (std::size_t first = 0, block = 0; first < values.size(); first += kLanes, ++block) {
    std::array<Spot, kRows> at;
    for (int r = 0; r < kRows; ++r) at[static_cast<std::size_t>(r)] = spot(keys[r], block, places);
    const std::size_t size = std::min(kLanes, values.size() - first);
    for (std::size_t l = 0; l < size; ++l) {
      float v[kRows];
      for (std::size_t r = 0; r < kRows; ++r)
        v[r] = flip(table[r * columns + at[r].bucket + (l ^ at[r].swap)], at[r].signs, l);
      auto order = [&v](int a, int b) {
        const float low = v[a] < v[b] ? v[a] : v[b];
        v[b] = v[a] > v[b] ? v[a] : v[b];
        v[a] = low;
      };
      values[first + l] = v[find_median<kRows>(order)];
    }
  }
}

#if defined(__x86_64__)
/// Lane l of the result is lane l ^ swap, of two registers for swaps of 8 and more.
TAXON_AVX2 inline __m256i lanes_avx2(std::uint32_t swap) {
  return _mm256_xor_si256(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                          _mm256_set1_epi32(static_cast<int>(swap & 7)));
}
TAXON_AVX2 inline __m256 signs_avx2(std::uint32_t signs) {
  const __m256i bits = _mm256_sllv_epi32(_mm256_set1_epi32(static_cast<int>(signs)),
                                         _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
  return _mm256_castsi256_ps(_mm256_and_si256(bits, _mm256_set1_epi32(static_cast<int>(0x80000000U))));
}

TAXON_AVX2 void sketch_avx2(const float* values, std::size_t blocks, std::size_t columns, std::uint64_t key,
                            float* row) {
  const std::uint64_t places = columns / kLanes;
  for (std::size_t block = 0; block < blocks; ++block, values += kLanes) {
    const Spot at = spot(key, block, places);
    const __m256i lanes = lanes_avx2(at.swap);
    const std::size_t half = at.swap & 8;
    const __m256 low = _mm256_xor_ps(_mm256_loadu_ps(values), signs_avx2(at.signs));
    const __m256 high = _mm256_xor_ps(_mm256_loadu_ps(values + 8), signs_avx2(at.signs >> 8));
    float* to_low = row + at.bucket + half;
    float* to_high = row + at.bucket + (half ^ 8);
    _mm256_storeu_ps(to_low, _mm256_add_ps(_mm256_loadu_ps(to_low), _mm256_permutevar8x32_ps(low, lanes)));
    _mm256_storeu_ps(to_high, _mm256_add_ps(_mm256_loadu_ps(to_high), _mm256_permutevar8x32_ps(high, lanes)));
  }
}

template <int kRows>
TAXON_AVX2 void estimate_avx2(const float* table, std::size_t columns, const std::uint64_t* keys,
                              float* values, std::size_t blocks) {
  const std::uint64_t places = columns / kLanes;
  for (std::size_t block = 0; block < blocks; ++block, values += kLanes) {
    __m256 low[kRows], high[kRows];
    for (int r = 0; r < kRows; ++r) {
      const Spot at = spot(keys[r], block, places);
      const __m256i lanes = lanes_avx2(at.swap);
      const std::size_t half = at.swap & 8;
      const float* from = table + static_cast<std::size_t>(r) * columns + at.bucket;
      low[r] =
          _mm256_xor_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(from + half), lanes), signs_avx2(at.signs));
      high[r] = _mm256_xor_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(from + (half ^ 8)), lanes),
                              signs_avx2(at.signs >> 8));
    }
    auto order = [&low, &high](int a, int b) TAXON_AVX2 {
      const __m256 least_low = _mm256_min_ps(low[a], low[b]), least_high = _mm256_min_ps(high[a], high[b]);
      low[b] = _mm256_max_ps(low[a], low[b]);
      high[b] = _mm256_max_ps(high[a], high[b]);
      low[a] = least_low;
      high[a] = least_high;
    };
    const int middle = find_median<kRows>(order);
    _mm256_storeu_ps(values, low[middle]);
    _mm256_storeu_ps(values + 8, high[middle]);
  }
}

TAXON_AVX512 inline __m512i lanes_avx512(std::uint32_t swap) {
  return _mm512_xor_si512(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                          _mm512_set1_epi32(static_cast<int>(swap)));
}
TAXON_AVX512 inline __m512 flip_avx512(__m512 values, std::uint32_t signs) {
  const __m512i bits = _mm512_castps_si512(values);
  return _mm512_castsi512_ps(_mm512_mask_xor_epi32(bits, static_cast<__mmask16>(signs), bits,
                                                   _mm512_set1_epi32(static_cast<int>(0x80000000U))));
}

TAXON_AVX512 void sketch_avx512(const float* values, std::size_t blocks, std::size_t columns,
                                std::uint64_t key, float* row) {
  const std::uint64_t places = columns / kLanes;
  for (std::size_t block = 0; block < blocks; ++block, values += kLanes) {
    const Spot at = spot(key, block, places);
    const __m512 signed_values = flip_avx512(_mm512_loadu_ps(values), at.signs);
    float* to = row + at.bucket;
    _mm512_storeu_ps(
        to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_permutexvar_ps(lanes_avx512(at.swap), signed_values)));
  }
}

template <int kRows>
TAXON_AVX512 void estimate_avx512(const float* table, std::size_t columns, const std::uint64_t* keys,
                                  float* values, std::size_t blocks) {
  const std::uint64_t places = columns / kLanes;
  for (std::size_t block = 0; block < blocks; ++block, values += kLanes) {
    __m512 v[kRows];
    for (int r = 0; r < kRows; ++r) {
      const Spot at = spot(keys[r], block, places);
      const float* from = table + static_cast<std::size_t>(r) * columns + at.bucket;
      v[r] = flip_avx512(_mm512_permutexvar_ps(lanes_avx512(at.swap), _mm512_loadu_ps(from)), at.signs);
    }
    auto order = [&v](int a, int b) TAXON_AVX512 {
      const __m512 low = _mm512_min_ps(v[a], v[b]);
      v[b] = _mm512_max_ps(v[a], v[b]);
      v[a] = low;
    };
    _mm512_storeu_ps(values, v[find_median<kRows>(order)]);
  }
}
#endif

template <int kRows>
void estimate_rows(const float* table, std::size_t columns, std::uint64_t key, std::span<float> values,
                   Isa path) {
  std::uint64_t keys[kRows];
  for (int r = 0; r < kRows; ++r) keys[r] = row_key(key, r);
  std::size_t blocks = values.size() / kLanes;
#if defined(__x86_64__)
  if (path == Isa::Avx512) estimate_avx512<kRows>(table, columns, keys, values.data(), blocks);
  if (path == Isa::Avx2) estimate_avx2<kRows>(table, columns, keys, values.data(), blocks);
#endif
  if (path == Isa::Portable) return estimate_portable<kRows>(table, columns, keys, values);
  // The last, shorter block, as if it were the whole: its keys moved on.
  for (std::uint64_t& k : keys) k += blocks;
  estimate_portable<kRows>(table, columns, keys, values.subspan(blocks * kLanes));
}

void check(std::span<const float> table, const SketchShape& shape) {
  TAXON_CHECK(shape.columns % kLanes == 0 && shape.columns > 0 && table.size() == shape.size(), shape.rows,
              " x ", shape.columns, " in ", table.size());
}

}  // namespace

SketchShape sketch_of(int rows, std::size_t columns) {
  constexpr std::size_t kLanes = SketchShape::kLanes;
  return {rows, std::max<std::size_t>(1, (columns + kLanes - 1) / kLanes) * kLanes};
}

SketchShape sketch_shape(int rows, double share, std::size_t count) {
  return sketch_of(rows, static_cast<std::size_t>(std::ceil(share * static_cast<double>(count))));
}

void sketch(std::span<const float> values, const SketchShape& shape, std::uint64_t key,
            std::span<float> table, Isa path) {
  check(table, shape);
  std::fill(table.begin(), table.end(), 0.0F);
  // Piece by piece, so that values are read from memory once for all rows.
  for (std::size_t first = 0; first < values.size(); first += kPiece) {
    const auto piece = values.subspan(first, std::min(kPiece, values.size() - first));
    const std::size_t blocks = path == Isa::Portable ? 0 : piece.size() / kLanes;
    for (int r = 0; r < shape.rows; ++r) {
      float* row = table.data() + static_cast<std::size_t>(r) * shape.columns;
      const std::uint64_t k = row_key(key, r) + first / kLanes;
#if defined(__x86_64__)
      if (path == Isa::Avx512) sketch_avx512(piece.data(), blocks, shape.columns, k, row);
      if (path == Isa::Avx2) sketch_avx2(piece.data(), blocks, shape.columns, k, row);
#endif
      sketch_portable(piece.subspan(blocks * kLanes), shape.columns, k + blocks, row);
    }
  }
}

void estimate(std::span<const float> table, const SketchShape& shape, std::uint64_t key,
              std::span<float> values, Isa path) {
  check(table, shape);
  switch (shape.rows) {
    case 1:
      return estimate_rows<1>(table.data(), shape.columns, key, values, path);
    case 3:
      return estimate_rows<3>(table.data(), shape.columns, key, values, path);
    case 5:
      return estimate_rows<5>(table.data(), shape.columns, key, values, path);
    case 7:
      return estimate_rows<7>(table.data(), shape.columns, key, values, path);
    default:
      TAXON_CHECK(false, shape.rows, " rows");
  }
}

}  // namespace taxon::codec
