#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/values.h"

namespace taxon::data {

/// One tensor of a sample.
struct Part {
  std::vector<std::int64_t> extents;
  DType type = DType::Float32;  // int64: tokens; uint8: flags, true or false
  std::int64_t elements() const;
  friend bool operator==(const Part&, const Part&) = default;
};

/// What one sample looks like: its inputs, and what a model is to say of it.
struct SampleShape {
  std::vector<std::int64_t> input;  // e.g. {1, 28, 28}
  /// Labels, or tokens, are 0 to classes - 1. Of real targets: how many a sample has. What a model gives for
  /// a label, or for a sample with real targets.
  int classes = 0;
  DType input_type = DType::Float32;      // or int64, for tokens
  std::vector<std::int64_t> target = {};  // empty: one label
  bool bytes = false;                     // tokens are bytes of a file
  DType target_type = DType::Int64;       // or float32, for real targets
  std::vector<Part> more = {};            // inputs beside the first
  bool has_real_targets() const { return target_type == DType::Float32; }
  /// All inputs.
  std::vector<Part> inputs() const;
  /// Of the first input.
  std::int64_t elements() const;
  /// Labels of a sample.
  std::int64_t targets() const;
  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

/// "float32", "int64", "bool".
std::string_view describe(DType type);
/// "inputs float32 [1, 28, 28] and one int64 label", "inputs int64 [256] and targets int64 [256]".
std::string describe(const SampleShape& shape);

/// Inputs of samples, one sample after the other, of each part of their shape.
struct Inputs {
  std::vector<Values> parts;
  Inputs() = default;
  explicit Inputs(std::vector<Values> all) : parts(std::move(all)) {}
  template <std::convertible_to<Values> T>
  Inputs(const T& first) : parts{Values(first)} {}
};

}  // namespace taxon::data
