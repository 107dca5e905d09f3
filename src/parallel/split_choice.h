#pragma once

#include <span>
#include <string>
#include <vector>

#include "parallel/split.h"

namespace taxon::parallel {

/// A layer of a chain whose split is to be chosen.
struct SplitCandidate {
  std::string name;
  double weights = 0;              // elements of all of them
  double inputs = 0, outputs = 0;  // elements of a sample
  std::vector<const SplitRow*> rows;
  /// What follows in the layer is computed of its outputs' sums, not of summands: pooling, rectifiers.
  bool needs_sums = false;
  /// Elements of a sample that are left as summands and taken by features inside the layer, where it leaves
  /// summands.
  double inside = 0;
};

struct SplitChoiceInput {
  int members = 1;   // of the tensor axis
  int replicas = 1;  // over which gradients are summed beside that
  /// Members sum strips of a gradient of which each has a summand, and replicas these strips: as many bytes
  /// as one all-reduce over all of them. Otherwise replicas sum all of it first.
  bool in_strips = true;
  double samples = 1;  // of a replica and a step
  double element_bytes = 4;
};

struct SplitChoice {
  const SplitRow* row = nullptr;
  /// For each of the candidate's rows: the bytes that a member sends in a step if the layer is split so and
  /// all others as is best then; infinite where nothing leads there.
  std::vector<double> bytes;
};

/// The rows with which a member sends the fewest bytes, the first ones of equally few: movements of
/// activations and of their gradients between layers, from samples that every member can read to a loss that
/// every member takes whole; gradients of weights, summed over the members where these make summands of them
/// and over the replicas. A dynamic program over the chain. PCL-DNN's balance (balance.h) with all movements
/// counted, for one size of groups. Throws Error{Usage} where no choice leads from the first to the last.
std::vector<SplitChoice> choose_splits(std::span<const SplitCandidate> layers, const SplitChoiceInput& input);

/// The choice as a table, a line for each layer.
std::string describe(std::span<const SplitCandidate> layers, std::span<const SplitChoice> choices,
                     const SplitChoiceInput& input);

}  // namespace taxon::parallel
