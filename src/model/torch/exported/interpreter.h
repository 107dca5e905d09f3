#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/torch/exported/arguments.h"
#include "model/torch/exported/graph.h"
#include "model/torch/exported/operators.h"
#include "model/torch/network.h"

namespace taxon::model::exported {

/// Runs a graph, operator by operator, through the framework's dispatcher, so that autograd records it as it
/// would record the Python code. One thread at a time.
class Interpreter {
 public:
  /// Throws Error{Data}, which lists every operator that this libtorch has not, or not with the arguments
  /// that the graph gives it, with its node; and for a graph that was exported in evaluation mode, or reads
  /// values that no node before gives.
  explicit Interpreter(Graph graph);

  /// From now on constants of the graph that name `exported` as an element type name `type`.
  void compute_in(at::ScalarType exported, at::ScalarType type);

  /// `stored` are the parameters, buffers and constants, and `inputs` the user's, each in the order of the
  /// graph's inputs. In training, buffers change as they do in PyTorch; in evaluation they don't. Throws what
  /// the framework throws as std::runtime_error with the node.
  std::vector<at::Tensor> run(std::span<const at::Tensor> stored, std::span<const at::Tensor> inputs,
                              Mode mode) const;

  const Graph& graph() const { return graph_; }
  std::size_t operators() const { return instructions_.size(); }

 private:
  using Slot = std::uint32_t;  // of a run's values
  static constexpr Slot kNowhere = ~Slot{0};

  /// An argument that an earlier node gives.
  struct Operand {
    std::uint32_t argument;
    Slot slot;
    ArgumentType type;
  };
  /// A list, some of whose items earlier nodes give.
  struct ListOperand {
    std::uint32_t argument;
    ArgumentType type;
    std::vector<c10::IValue> items;
    std::vector<std::pair<std::uint32_t, Slot>> open;  // item, what it is
  };
  struct Result {
    bool is_list = false;
    std::vector<Slot> slots;  // kNowhere: nobody reads it
  };
  struct Instruction {
    Operator callee;
    std::uint32_t node;
    std::vector<c10::IValue> arguments;                             // constants in their places
    std::vector<std::pair<std::uint32_t, c10::IValue>> evaluation;  // argument, what it is in that mode
    std::vector<std::pair<std::uint32_t, at::ScalarType>> types;    // arguments that name an element type
    std::vector<Operand> operands;
    std::vector<ListOperand> lists;
    std::vector<Result> results;
    std::vector<Slot> last_reads;  // values that nobody reads afterwards
  };
  class Compiler;

  void push_arguments(const Instruction& instruction, const std::vector<c10::IValue>& values, Mode mode,
                      torch::jit::Stack& stack) const;
  static void take_results(const Instruction& instruction, torch::jit::Stack& stack,
                           std::vector<c10::IValue>& values);

  Graph graph_;
  std::vector<Instruction> instructions_;
  std::size_t slots_ = 0;
  std::vector<Slot> stored_, inputs_;  // kNowhere: nobody reads it
  std::vector<char> changes_;          // of stored_: a node may write there
  std::vector<Slot> outputs_;
  std::vector<std::pair<Slot, Slot>> mutations_;  // buffer, its next value
};

}  // namespace taxon::model::exported
