#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <set>
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
  using Slot = std::uint32_t;  // of a run's values

  /// Operators of the graph in their order, with what they take and give.
  struct Part {
    std::vector<std::uint32_t> instructions;
    std::vector<Slot> inputs, outputs;
    std::vector<Slot> sizes;                       // that are the batch's
    std::vector<std::uint32_t> stored;             // tensors that it reads or changes, as run() takes them
    std::vector<std::pair<Slot, Slot>> mutations;  // buffer, its next value
    std::set<Slot> changes;                        // in whose memory it may write
  };

  /// Throws Error{Data}, which lists every operator that this libtorch has not, or not with the arguments
  /// that the graph gives it, with its node; and for a graph that was exported in evaluation mode (other than
  /// norms whose weights are frozen), or reads values that no node before gives.
  explicit Interpreter(Graph graph);

  /// From now on constants of the graph that name `exported` as an element type name `type`.
  void compute_in(at::ScalarType exported, at::ScalarType type);

  /// `stored` are the parameters, buffers and constants, and `inputs` the user's, each in the order of the
  /// graph's inputs. In training, buffers change as they do in PyTorch; in evaluation they don't. Throws what
  /// the framework throws as std::runtime_error with the node.
  std::vector<at::Tensor> run(std::span<const at::Tensor> stored, std::span<const at::Tensor> inputs,
                              Mode mode) const {
    return run(whole_, stored, inputs, mode);
  }
  /// The same of a part, whose own inputs and outputs these are then.
  std::vector<at::Tensor> run(const Part& part, std::span<const at::Tensor> stored,
                              std::span<const at::Tensor> inputs, Mode mode) const;

  /// A part with parameters of its own. `layer` goes up to the last operator that reads any, or what follows
  /// from them alone; `rest` is what lies behind it. Both empty: more than one activation goes from one to
  /// the other.
  struct Stage {
    Part all, layer, rest;
    bool has_layer() const { return !layer.instructions.empty(); }
    bool has_rest() const { return !rest.instructions.empty(); }
  };
  /// The stages that the graph of one input and its first output falls into, one behind the other, each with
  /// parameters that none before it reads. From one to the next goes a single tensor, of that type, whose
  /// first dimension is the batch; what follows from the batch's size and from stored tensors that nobody
  /// changes is computed in each stage that reads it. A buffer that changes is in one stage. Operators
  /// without parameters are in the stage before, as far as that can be. `stored`: as run()'s; REQUIRES: one
  /// input.
  std::vector<Stage> cut(std::span<const at::Tensor> stored, at::ScalarType type) const;
  /// Whether stored tensors are others after a pass through it in training.
  bool changes_stored(const Part& part) const;
  /// The first operator that draws random numbers in training, and its place; empty: none does.
  std::string draws() const;

  const Graph& graph() const { return graph_; }
  std::size_t operators() const { return instructions_.size(); }

 private:
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
    std::vector<std::uint32_t> statistics;  // arguments that a norm writes in training
    std::vector<Slot> writes;               // values in whose memory it may write, as memory_ names them
    std::vector<Slot> last_reads;           // values that nobody reads afterwards
    /// What it reads for an argument, and for all.
    std::vector<Slot> sources(std::uint32_t argument) const;
    std::vector<Slot> sources() const;
  };
  class Compiler;
  class Cutter;

  bool changes(const Part& part, Slot value) const { return part.changes.contains(memory_[value]); }
  void push_arguments(const Instruction& instruction, const std::vector<c10::IValue>& values, Mode mode,
                      torch::jit::Stack& stack) const;
  static void take_results(const Instruction& instruction, torch::jit::Stack& stack,
                           std::vector<c10::IValue>& values);

  Graph graph_;
  std::vector<Instruction> instructions_;
  std::vector<std::string> names_;  // of the values
  std::vector<Slot> memory_;        // of each value: the first one that lies where it does
  std::vector<Slot> stored_;
  Part whole_;
};

}  // namespace taxon::model::exported
