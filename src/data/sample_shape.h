#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace taxon::data {

/// What one sample looks like: its input, and what a model is to say of it.
struct SampleShape {
  std::vector<std::int64_t> input;        // e.g. {1, 28, 28}
  int classes = 0;                        // labels, or tokens, are 0 to classes - 1
  DType input_type = DType::Float32;      // or int64, for tokens
  std::vector<std::int64_t> target = {};  // int64; empty: one label
  /// Of the input.
  std::int64_t elements() const;
  /// Labels of a sample.
  std::int64_t targets() const;
  friend bool operator==(const SampleShape&, const SampleShape&) = default;
};

/// "inputs float32 [1, 28, 28] and one int64 label", "inputs int64 [256] and targets int64 [256]".
std::string describe(const SampleShape& shape);

/// Throws Error{Usage} that names both shapes unless samples are numbers with one label each, which is what
/// the models of the table and TorchScript files take.
void require_labelled_numbers(const SampleShape& shape, std::string_view dataset);

}  // namespace taxon::data
