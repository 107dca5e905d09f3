#include "codec/outer_products.h"

#include <cstring>

namespace taxon::codec {
namespace {

// A tile of the sum, so many rows of one register each, stays in registers while it goes through all samples.
constexpr std::size_t kTileRows = 6;

template <class T, std::size_t kBytes>
struct OuterProducts {
  static constexpr std::size_t kLanes = kBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kBytes)));

  template <std::size_t kRows>
  static TAXON_INLINE void tile(const T* __restrict factors, OuterShape shape, std::size_t row,
                                std::size_t column, T* __restrict sum) {
    Vector sums[kRows];
#pragma GCC unroll 6
    for (std::size_t r = 0; r < kRows; ++r) sums[r] = Vector{};
    for (std::size_t block = 0; block < shape.blocks; ++block) {
      const T* outputs = factors + block * shape.block() + row;
      const T* inputs = factors + block * shape.block() + shape.rows * shape.outputs + column;
      for (std::size_t k = 0; k < shape.rows; ++k, outputs += shape.outputs, inputs += shape.inputs) {
        Vector x;
        std::memcpy(&x, inputs, sizeof x);
#pragma GCC unroll 6
        for (std::size_t r = 0; r < kRows; ++r) sums[r] += outputs[r] * x;
      }
    }
#pragma GCC unroll 6
    for (std::size_t r = 0; r < kRows; ++r)
      std::memcpy(sum + (row + r) * shape.inputs + column, &sums[r], sizeof sums[r]);
  }

  static TAXON_INLINE T element(const T* factors, OuterShape shape, std::size_t row, std::size_t column) {
    T sum = 0;
    for (std::size_t block = 0; block < shape.blocks; ++block) {
      const T* outputs = factors + block * shape.block() + row;
      const T* inputs = factors + block * shape.block() + shape.rows * shape.outputs + column;
      for (std::size_t k = 0; k < shape.rows; ++k)
        sum += outputs[k * shape.outputs] * inputs[k * shape.inputs];
    }
    return sum;
  }

  static TAXON_INLINE void run(const T* factors, OuterShape shape, Range columns, T* sum) {
    std::size_t column = columns.begin;
    for (; column + kLanes <= columns.end(); column += kLanes) {
      std::size_t row = 0;
      for (; row + kTileRows <= shape.outputs; row += kTileRows)
        tile<kTileRows>(factors, shape, row, column, sum);
      for (; row < shape.outputs; ++row) tile<1>(factors, shape, row, column, sum);
    }
    for (; column < columns.end(); ++column)
      for (std::size_t row = 0; row < shape.outputs; ++row)
        sum[row * shape.inputs + column] = element(factors, shape, row, column);
  }
};

}  // namespace

template <class T>
void sum_outer_products(std::span<const T> factors, const OuterShape& shape, Range columns, std::span<T> sum,
                        Isa path) {
  TAXON_CHECK(factors.size() == shape.blocks * shape.block() && sum.size() == shape.outputs * shape.inputs &&
              columns.end() <= shape.inputs);
  if (path == Isa::Avx512)
    run_on<OuterProducts<T, 64>>(path, factors.data(), shape, columns, sum.data());
  else if (path == Isa::Avx2)
    run_on<OuterProducts<T, 32>>(path, factors.data(), shape, columns, sum.data());
  else
    run_on<OuterProducts<T, 16>>(path, factors.data(), shape, columns, sum.data());
}

template void sum_outer_products(std::span<const float>, const OuterShape&, Range, std::span<float>, Isa);
template void sum_outer_products(std::span<const double>, const OuterShape&, Range, std::span<double>, Isa);

}  // namespace taxon::codec
