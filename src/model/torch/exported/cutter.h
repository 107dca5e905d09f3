#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/torch/exported/interpreter.h"

namespace taxon::model::exported {

/// Finds the stages that Interpreter::cut() promises.
class Interpreter::Cutter {
 public:
  Cutter(const Interpreter& program, std::span<const at::Tensor> stored, at::ScalarType type);
  std::vector<Stage> stages() const;

 private:
  using Position = std::size_t;  // of an instruction; a cut there is before it

  bool is_size_of_batch(const Instruction& instruction) const;
  bool follows_from_sizes(const Instruction& instruction) const;
  bool is_parameter(Slot slot) const {
    return stored_at_[slot] >= 0 && is_parameter_[static_cast<std::size_t>(stored_at_[slot])];
  }
  bool is_free(Slot slot) const { return free_[slot] != 0; }
  /// Whether what the instruction reads is there in every part.
  bool reads_free_alone(const Instruction& instruction) const;
  bool is_activation(Slot slot) const;
  void find_free();
  void find_crossings();
  void find_changes();
  /// Of each instruction, whether it reads a parameter that none before it reads.
  std::vector<bool> read_new_parameters() const;
  /// Where a stage may begin: the last such place of (after, until], or earlier where what lies between reads
  /// no activation.
  std::optional<Position> place(Position after, Position until) const;
  Stage stage(Position begin, Position end) const;
  /// Behind the last instruction that reads parameters, or what follows from them alone.
  Position behind_layer(Position begin, Position end) const;
  Part part(Position begin, Position end) const;

  const Interpreter& program_;
  const std::span<const at::Tensor> stored_;
  const at::ScalarType type_;
  std::string batch_;               // its symbol
  std::vector<bool> is_parameter_;  // of the stored tensors
  std::vector<int> stored_at_;      // of a value: which stored tensor it is; -1: none
  std::vector<char> sizes_;         // values that are the batch's size
  std::vector<char> free_;          // that are there in every part: stored, sizes, what follows of these
  std::vector<int> made_by_;        // of a value: its instruction; -1: an input
  std::vector<char> again_;         // instructions that each part which reads their values has
  std::vector<std::optional<Slot>> crossing_;  // of a position: the one activation that crosses there
};

}  // namespace taxon::model::exported
