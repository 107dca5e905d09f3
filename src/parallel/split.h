#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "parallel/placement.h"

namespace taxon::parallel {

/// How a layer is divided over the members of a group, described: what each has of its weights, and how its
/// activations and their gradients must lie. What travels between two layers follows from their rows.
struct SplitRow {
  std::string_view name;
  std::string_view sentence;
  std::string_view source;
  bool divides_weights = false;  // each member owns a part; otherwise all have all of them
  /// The dimension of which each member has its part, of tensors of several dimensions (weights as the
  /// framework lays them: outputs, inputs, ...) and of those of one (biases, norms); -1: none.
  int of_matrices = -1, of_vectors = -1;
  Placement input, output;                    // of a forward pass
  Placement output_gradient, input_gradient;  // that a backward pass takes and makes
  /// Of the weights' gradients over the group: partial where members have seen different samples.
  Placement weight_gradient;
  bool by_samples() const { return input == kBySamples; }
};

/// parallel/split.cc.
std::span<const SplitRow> split_table();
/// The row of that name, one's own first. Throws Error{Usage} for a name that nothing has.
const SplitRow& find_split(std::string_view name, std::span<const SplitRow> own = {});

/// What lies between two neighbours of one group.
struct Boundary {
  Movement forward = Movement::None;   // of the producer's output
  Movement backward = Movement::None;  // of the gradient of the consumer's input
};
/// None where no collective leads from one to the other.
std::optional<Boundary> boundary(const SplitRow& producer, const SplitRow& consumer);

}  // namespace taxon::parallel
