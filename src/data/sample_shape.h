#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace taxon::data {

/// What one sample looks like: its input, and what a model is to say of it.
struct SampleShape {
  std::vector<std::int64_t> input;        // e.g. {1, 28, 28}
  int classes = 0;                        // labels, or tokens, are 0 to classes - 1
  DType input_type = DType::Float32;      // or int64, for tokens
  std::vector<std::int64_t> target = {};  // int64; empty: one label
  bool bytes = false;                     // tokens are bytes of a file
  /// Of the input.
  std::int64_t elements() const;
  /// Labels of a sample.
  std::int64_t targets() const;
  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

/// "inputs float32 [1, 28, 28] and one int64 label", "inputs int64 [256] and targets int64 [256]".
std::string describe(const SampleShape& shape);

/// Inputs of samples, one after the other: numbers or tokens, as their shape says; the other is empty.
struct Inputs {
  std::span<const float> numbers;
  std::span<const std::int64_t> tokens;
  Inputs() = default;
  template <std::convertible_to<std::span<const float>> T>
  Inputs(const T& values) : numbers(values) {}
  template <std::convertible_to<std::span<const std::int64_t>> T>
  Inputs(const T& values) : tokens(values) {}
};

}  // namespace taxon::data
