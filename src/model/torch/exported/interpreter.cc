#include "model/torch/exported/interpreter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/check.h"
#include "model/torch/exported/compiler.h"
#include "model/torch/exported/cutter.h"
#include "model/torch/exported/evaluation.h"
#include "model/torch/reason.h"

namespace taxon::model::exported {

using c10::IValue;
using torch::jit::Stack;

Interpreter::Interpreter(Graph graph) : graph_(std::move(graph)) { Compiler(*this).run(); }

void Interpreter::compute_in(at::ScalarType exported, at::ScalarType type) {
  for (Instruction& instruction : instructions_)
    for (const auto& [argument, named] : instruction.types)
      if (named == exported) instruction.arguments[argument] = static_cast<std::int64_t>(type);
}

void Interpreter::push_arguments(const Instruction& instruction, const std::vector<IValue>& values, Mode mode,
                                 Stack& stack) const {
  stack.assign(instruction.arguments.begin(), instruction.arguments.end());
  for (const Operand& operand : instruction.operands) {
    stack[operand.argument] = item(values[operand.slot], operand.type);
  }
  for (const ListOperand& operand : instruction.lists) {
    std::vector<IValue> items = operand.items;
    for (const auto& [index, slot] : operand.open) items[index] = item(values[slot], operand.type);
    stack[operand.argument] = list(items, operand.type);
  }
  if (mode == Mode::Evaluate)
    for (const auto& [argument, value] : instruction.evaluation) stack[argument] = value;
  if (mode == Mode::Train && !instruction.statistics.empty()) {
    // One value of each channel gives no number for their variance: such a batch teaches it nothing.
    const at::Tensor& x = stack[0].toTensor();
    if (x.dim() > 1 && x.numel() == x.size(1))
      for (const std::uint32_t argument : instruction.statistics)
        stack[argument] = stack[argument].toTensor().clone();
  }
}

void Interpreter::take_results(const Instruction& instruction, Stack& stack, std::vector<IValue>& values) {
  TAXON_CHECK(stack.size() == instruction.results.size(), stack.size(), " results");
  for (std::size_t i = 0; i < instruction.results.size(); ++i) {
    const Result& result = instruction.results[i];
    if (!result.is_list) {
      if (result.slots[0] != kNowhere) values[result.slots[0]] = std::move(stack[i]);
      continue;
    }
    const auto list = stack[i].toTensorVector();
    if (list.size() != result.slots.size())
      throw std::runtime_error(
          fmt::format("it gave {} tensors, and {} when it was exported", list.size(), result.slots.size()));
    for (std::size_t j = 0; j < list.size(); ++j)
      if (result.slots[j] != kNowhere) values[result.slots[j]] = list[j];
  }
}

std::vector<Interpreter::Slot> Interpreter::Instruction::sources(std::uint32_t argument) const {
  std::vector<Slot> slots;
  for (const Operand& operand : operands)
    if (operand.argument == argument) slots.push_back(operand.slot);
  for (const ListOperand& operand : lists)
    if (operand.argument == argument)
      for (const auto& [item, slot] : operand.open) slots.push_back(slot);
  return slots;
}

std::vector<Interpreter::Slot> Interpreter::Instruction::sources() const {
  std::vector<Slot> slots;
  for (std::uint32_t argument = 0; argument < arguments.size(); ++argument)
    for (const Slot slot : sources(argument)) slots.push_back(slot);
  return slots;
}

std::vector<at::Tensor> Interpreter::run(const Part& part, std::span<const at::Tensor> stored,
                                         std::span<const at::Tensor> inputs, Mode mode) const {
  TAXON_CHECK(stored.size() == stored_.size(), stored.size(), " stored tensors for ", stored_.size());
  TAXON_CHECK(inputs.size() == part.inputs.size(), inputs.size(), " inputs for ", part.inputs.size());
  std::vector<IValue> values(names_.size());
  const auto gets_a_value = [&](Slot buffer) {
    return std::any_of(part.mutations.begin(), part.mutations.end(),
                       [buffer](const auto& mutation) { return mutation.first == buffer; });
  };
  for (const std::uint32_t i : part.stored) {
    // What the backward pass keeps of a buffer is what it was before it gets its next value.
    const bool is_kept = mode == Mode::Train ? !gets_a_value(stored_[i]) : !changes(part, stored_[i]);
    values[stored_[i]] = is_kept ? stored[i] : stored[i].detach().clone();
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[part.inputs[i]] = changes(part, part.inputs[i]) ? inputs[i].clone() : inputs[i];
  for (const Slot slot : part.sizes) values[slot] = inputs[0].size(0);
  Stack stack;
  const Instruction* current = nullptr;
  try {
    for (const std::uint32_t index : part.instructions) {
      const Instruction& instruction = instructions_[index];
      current = &instruction;
      push_arguments(instruction, values, mode, stack);
      instruction.callee.call(stack);
      take_results(instruction, stack, values);
      for (const Slot slot : instruction.last_reads) values[slot] = IValue();
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("{} in {}", reason_of(error), place_of(graph_.nodes[current->node])));
  }
  if (mode == Mode::Train) {
    at::NoGradGuard no_grad;
    // A batch norm that saw one value of each channel gives no number for their variance.
    const bool alone = inputs[0].size(0) == 1;
    for (const auto& [buffer, next] : part.mutations)
      if (const at::Tensor& value = values[next].toTensor(); !alone || value.isfinite().all().item<bool>()) {
        const auto place = std::find(stored_.begin(), stored_.end(), buffer) - stored_.begin();
        at::Tensor(stored[static_cast<std::size_t>(place)]).copy_(value);
      }
  }
  std::vector<at::Tensor> outputs;
  for (const Slot slot : part.outputs) outputs.push_back(values[slot].toTensor());
  return outputs;
}

std::vector<Interpreter::Stage> Interpreter::cut(std::span<const at::Tensor> stored,
                                                 at::ScalarType type) const {
  TAXON_CHECK(whole_.inputs.size() == 1, whole_.inputs.size(), " inputs");
  return Cutter(*this, stored, type).stages();
}

bool Interpreter::changes_stored(const Part& part) const {
  return !part.mutations.empty() || std::any_of(part.stored.begin(), part.stored.end(),
                                                [&](std::uint32_t i) { return changes(part, stored_[i]); });
}

std::string Interpreter::draws() const {
  for (const Instruction& instruction : instructions_) {
    const auto& schema = instruction.callee.schema();
    const auto probability = dropout_argument(schema);
    const bool drops = probability && instruction.arguments[*probability].isDouble() &&
                       instruction.arguments[*probability].toDouble() > 0;
    if (drops || (!probability && instruction.callee.is_random()))
      return place_of(graph_.nodes[instruction.node]);
  }
  return "";
}

}  // namespace taxon::model::exported
