#pragma once

#include <cstdint>
#include <span>

#include "base/isa.h"

namespace taxon::codec {

/// A matrix of so many columns, row after row; its last row may be cut short, and counts as padded with
/// zeros. Factors are `rank` vectors, one after the other: left ones of rows() values, right ones of
/// `columns`. Sums are in an order that does not depend on the path.
struct MatrixShape {
  std::size_t size = 0, columns = 1;
  std::size_t rows() const { return (size + columns - 1) / columns; }
};

/// left := matrix right.
void multiply(std::span<const float> matrix, MatrixShape shape, std::span<const float> right,
              std::span<float> left, Isa path);
/// right := matrix^T left.
void multiply_transposed(std::span<const float> matrix, MatrixShape shape, std::span<const float> left,
                         std::span<float> right, Isa path);

enum class Expand { Assign, Add, Subtract };
/// matrix := or += or -= left right^T.
struct LowRankFactors {
  std::span<const float> left, right;
};
void expand(LowRankFactors factors, MatrixShape shape, Expand how, std::span<float> matrix, Isa path);

/// Vectors of `length` become orthonormal, each without what those before it have (Gram-Schmidt, twice). One
/// that depends on them becomes zero.
void orthonormalise(std::span<float> vectors, std::size_t length, Isa path);
/// Each vector becomes one of length one, or zero.
void normalise(std::span<float> vectors, std::size_t length, Isa path);

}  // namespace taxon::codec
