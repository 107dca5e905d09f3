#include "optim/rule.h"

namespace taxon::optim {
namespace {

constexpr std::size_t kBlock = 4096;

template <class T>
double block_sum(const T* values, std::size_t n) {
  // Eight independent partial sums: a fixed order that the compiler can vectorise.
  double partial[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k)
      partial[k] += static_cast<double>(values[i + k]) * static_cast<double>(values[i + k]);
  for (; i < n; ++i) partial[i % 8] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

template <class T>
double pairwise(const T* values, std::size_t n) {
  if (n <= kBlock) return block_sum(values, n);
  std::size_t half = (n / 2 + kBlock - 1) / kBlock * kBlock;
  return pairwise(values, half) + pairwise(values + half, n - half);
}

}  // namespace

double squared_norm(const tensor::Arena& values, Range range) {
  return dispatch(values.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      return pairwise(values.values<T>(range).data(), range.size);
    } else {
      double sum = 0;
      for (T value : values.values<T>(range))
        sum += static_cast<double>(static_cast<float>(value)) * static_cast<float>(value);
      return sum;
    }
  });
}

}  // namespace taxon::optim
