#include "codec/low_rank.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace taxon::codec {
namespace {

constexpr std::size_t kLanes = 16;

/// What is left of a vector, as a share of it, if it depends on those before it but for rounding.
constexpr float kDependent = 1e-5F;

TAXON_INLINE float dot(const float* __restrict a, const float* __restrict b, std::size_t count) {
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) sums[l] += a[i + l] * b[i + l];
  for (; i < count; ++i) sums[i % kLanes] += a[i] * b[i];
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  return sums[0];
}

TAXON_INLINE void add_scaled(const float* __restrict a, float factor, float* __restrict to,
                             std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += factor * a[i];
}

TAXON_INLINE void scale(float* values, float factor, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

TAXON_INLINE std::size_t width(std::size_t size, std::size_t columns, std::size_t row) {
  const std::size_t left = size - row * columns;
  return left < columns ? left : columns;
}

struct Multiply {
  static TAXON_INLINE void run(const float* matrix, std::size_t size, std::size_t columns, const float* right,
                               float* left, std::size_t rank) {
    const std::size_t rows = (size + columns - 1) / columns;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < rank; ++k)
        left[k * rows + i] = dot(matrix + i * columns, right + k * columns, width(size, columns, i));
  }
};

struct MultiplyTransposed {
  static TAXON_INLINE void run(const float* matrix, std::size_t size, std::size_t columns, const float* left,
                               float* right, std::size_t rank) {
    const std::size_t rows = (size + columns - 1) / columns;
    for (std::size_t i = 0; i < rank * columns; ++i) right[i] = 0;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < rank; ++k)
        add_scaled(matrix + i * columns, left[k * rows + i], right + k * columns, width(size, columns, i));
  }
};

template <Expand kHow>
struct ExpandKernel {
  static TAXON_INLINE void run(const float* __restrict left, const float* __restrict right, std::size_t rank,
                               std::size_t size, std::size_t columns, float* __restrict matrix) {
    constexpr std::size_t kAtOnce = 64;
    const std::size_t rows = (size + columns - 1) / columns;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t first = 0; first < width(size, columns, i); first += kAtOnce) {
        const std::size_t count = std::min(kAtOnce, width(size, columns, i) - first);
        float sums[kAtOnce] = {};
        for (std::size_t k = 0; k < rank; ++k)
          add_scaled(right + k * columns + first, left[k * rows + i], sums, count);
        float* to = matrix + i * columns + first;
        for (std::size_t j = 0; j < count; ++j)
          to[j] = kHow == Expand::Assign ? sums[j] : kHow == Expand::Add ? to[j] + sums[j] : to[j] - sums[j];
      }
  }
};

struct Normalise {
  static TAXON_INLINE void run(float* vectors, std::size_t count, std::size_t length) {
    for (std::size_t k = 0; k < count; ++k) {
      float* vector = vectors + k * length;
      const float norm = std::sqrt(dot(vector, vector, length));
      const float inverse = 1 / norm;
      // Of what is too small to have an inverse the direction is noise.
      scale(vector, norm > 0 && inverse <= 1e30F ? inverse : 0, length);
    }
  }
};

struct Orthonormalise {
  static TAXON_INLINE void run(float* vectors, std::size_t count, std::size_t length) {
    Normalise::run(vectors, count, length);
    for (std::size_t k = 0; k < count; ++k) {
      float* vector = vectors + k * length;
      // What rounding leaves of the first time, the second takes.
      for (int time = 0; time < 2; ++time) {
        for (std::size_t j = 0; j < k; ++j)
          add_scaled(vectors + j * length, -dot(vectors + j * length, vector, length), vector, length);
        const float norm = std::sqrt(dot(vector, vector, length));
        scale(vector, norm > kDependent ? 1 / norm : 0, length);
      }
    }
  }
};

}  // namespace

void multiply(std::span<const float> matrix, MatrixShape shape, std::span<const float> right,
              std::span<float> left, Isa path) {
  TAXON_CHECK(matrix.size() == shape.size && left.size() / shape.rows() == right.size() / shape.columns);
  run_on<Multiply>(path, matrix.data(), shape.size, shape.columns, right.data(), left.data(),
                   right.size() / shape.columns);
}

void multiply_transposed(std::span<const float> matrix, MatrixShape shape, std::span<const float> left,
                         std::span<float> right, Isa path) {
  TAXON_CHECK(matrix.size() == shape.size && left.size() / shape.rows() == right.size() / shape.columns);
  run_on<MultiplyTransposed>(path, matrix.data(), shape.size, shape.columns, left.data(), right.data(),
                             right.size() / shape.columns);
}

void expand(LowRankFactors factors, MatrixShape shape, Expand how, std::span<float> matrix, Isa path) {
  const std::size_t rank = factors.right.size() / shape.columns;
  TAXON_CHECK(matrix.size() == shape.size && factors.left.size() == rank * shape.rows());
  auto run = [&]<Expand kHow>() {
    run_on<ExpandKernel<kHow>>(path, factors.left.data(), factors.right.data(), rank, shape.size,
                               shape.columns, matrix.data());
  };
  switch (how) {
    case Expand::Assign:
      return run.template operator()<Expand::Assign>();
    case Expand::Add:
      return run.template operator()<Expand::Add>();
    case Expand::Subtract:
      return run.template operator()<Expand::Subtract>();
  }
}

void orthonormalise(std::span<float> vectors, std::size_t length, Isa path) {
  run_on<Orthonormalise>(path, vectors.data(), vectors.size() / length, length);
}

void normalise(std::span<float> vectors, std::size_t length, Isa path) {
  run_on<Normalise>(path, vectors.data(), vectors.size() / length, length);
}

}  // namespace taxon::codec
