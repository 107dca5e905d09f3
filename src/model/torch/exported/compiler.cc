#include "model/torch/exported/compiler.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "model/torch/exported/evaluation.h"
#include "model/torch/exported/weights.h"

namespace taxon::model::exported {

using c10::IValue;

namespace {

const Argument* find(const Node& node, const std::string& name) {
  const auto found = std::find_if(node.arguments.begin(), node.arguments.end(),
                                  [&](const Argument& argument) { return argument.name == name; });
  return found == node.arguments.end() ? nullptr : &*found;
}

bool is_none(const Argument* argument) {
  return argument && argument->items.size() == 1 &&
         std::holds_alternative<std::monostate>(argument->items[0]);
}

bool has_mode(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(),
                     [](const c10::Argument& argument) { return mode_argument(argument.name()) != nullptr; });
}

}  // namespace

void Interpreter::Compiler::run() {
  add_inputs();
  for (std::uint32_t i = 0; i < target_.graph_.nodes.size(); ++i)
    if (!is_note(target_.graph_.nodes[i].target)) add_node(i);
  if (!problems_.empty()) {
    std::string list;
    for (const std::string& name : order_) list += (list.empty() ? "" : "; ") + problems_[name];
    throw Error(ErrorKind::Data, fmt::format("can't be trained with libtorch {}: {}", TORCH_VERSION, list));
  }
  if (flags_ > 0 && flags_in_training_ == 0) {
    const bool all_norms = fixed_norms_.size() == static_cast<std::size_t>(flags_);
    throw Error(
        ErrorKind::Data,
        fmt::format("was exported in evaluation mode, in which dropout is off and batch norm learns no "
                    "statistics: call model.train() before torch.export.export{}",
                    all_norms ? fmt::format(", or freeze the weights (requires_grad = False) of norms whose "
                                            "statistics are to stay, as in {}",
                                            place_of(*fixed_norms_.front()))
                              : ""));
  }
  for (const std::string& name : target_.graph_.outputs) target_.whole_.outputs.push_back(slot_of(name));
  for (const BufferMutation& mutation : target_.graph_.mutations) {
    const auto buffer = std::find_if(
        target_.graph_.inputs.begin(), target_.graph_.inputs.end(),
        [&](const Input& i) { return i.kind == Input::Kind::Buffer && i.target == mutation.buffer; });
    if (buffer == target_.graph_.inputs.end())
      throw Error(ErrorKind::Data,
                  fmt::format("its graph is damaged: there is no buffer {}", mutation.buffer));
    target_.whole_.mutations.emplace_back(slot_of(buffer->value), slot_of(mutation.value));
  }
  find_last_reads();
}

void Interpreter::Compiler::add_inputs() {
  for (const Input& input : target_.graph_.inputs) {
    if (input.kind == Input::Kind::Unused) continue;
    const Slot slot = new_slot(input.value);
    (input.kind == Input::Kind::User ? target_.whole_.inputs : target_.stored_).push_back(slot);
  }
  for (std::uint32_t i = 0; i < target_.stored_.size(); ++i) target_.whole_.stored.push_back(i);
}

void Interpreter::Compiler::add_node(std::uint32_t index) {
  const Node& node = target_.graph_.nodes[index];
  auto callee = Operator::find(node.target);
  if (!callee) return report(node, "which this libtorch has not");
  Instruction instruction{.callee = *std::move(callee), .node = index};
  const auto& schema = instruction.callee.schema();
  if (target_.graph_.is_decomposed && instruction.callee.is_random() && !has_mode(schema))
    report(node,
           "whose noise evaluation can't do without: save what torch.export.export gives, not decomposed");
  if (schema.argumentIndexWithName("filename")) return report(node, "which opens a file");
  for (const Argument& given : node.arguments)
    if (!schema.argumentIndexWithName(given.name))
      report(node, fmt::format("which has no argument {} in this libtorch", given.name));
  for (std::uint32_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& wanted = schema.arguments()[i];
    const Argument* given = find(node, wanted.name());
    instruction.arguments.push_back(wanted.default_value() ? *wanted.default_value() : IValue());
    if (!given && !wanted.default_value())
      return report(node, fmt::format("whose argument {} is not given", wanted.name()));
    try {
      if (given) add_argument(instruction, i, *given);
    } catch (const std::invalid_argument& misfit) {
      return report(node, fmt::format("whose argument {} {}", wanted.name(), misfit.what()));
    }
    add_mode(instruction, i, given);
  }
  if (node.outputs.size() != schema.returns().size())
    return report(node, fmt::format("which gives {} values rather than {}", schema.returns().size(),
                                    node.outputs.size()));
  for (const Returned& output : node.outputs) {
    Result result{.is_list = output.is_list};
    for (const std::string& name : output.names)
      result.slots.push_back(name.empty() ? kNowhere : new_slot(name));
    instruction.results.push_back(std::move(result));
  }
  follow_memory(instruction);
  target_.whole_.changes.insert(instruction.writes.begin(), instruction.writes.end());
  target_.whole_.instructions.push_back(static_cast<std::uint32_t>(target_.instructions_.size()));
  target_.instructions_.push_back(std::move(instruction));
}

void Interpreter::Compiler::add_argument(Instruction& instruction, std::uint32_t index,
                                         const Argument& given) {
  const c10::Argument& wanted = instruction.callee.schema().arguments()[index];
  if (is_none(&given)) {
    instruction.arguments[index] = IValue();
    return;
  }
  const ArgumentType type = type_of(wanted);
  if (type.is_list) return add_list(instruction, index, given, type);
  if (given.is_list || given.items.size() != 1) throw std::invalid_argument("is a list");
  const Literal& literal = given.items[0];
  if (const auto* name = std::get_if<ValueName>(&literal)) {
    instruction.operands.push_back({index, slot_of(name->name), type});
    return;
  }
  instruction.arguments[index] = constant(literal, type);
  if (const auto* code = std::get_if<ScalarTypeCode>(&literal))
    instruction.types.emplace_back(index, scalar_type(*code));
}

void Interpreter::Compiler::add_list(Instruction& instruction, std::uint32_t index, const Argument& given,
                                     const ArgumentType& type) {
  ListOperand operand{.argument = index, .type = type};
  for (const Literal& literal : given.items) {
    const auto* name = std::get_if<ValueName>(&literal);
    if (name)
      operand.open.emplace_back(static_cast<std::uint32_t>(operand.items.size()), slot_of(name->name));
    operand.items.push_back(name ? IValue() : constant(literal, type));
    if (!name && operand.items.back().isNone() && !type.optional_items)
      throw std::invalid_argument("has an item that is none");
  }
  // One number stands for as many as the operator wants.
  if (!given.is_list) operand.items.resize(static_cast<std::size_t>(type.length), operand.items.at(0));
  if (!given.is_list && !operand.open.empty())
    for (std::uint32_t i = 1; i < operand.items.size(); ++i)
      operand.open.emplace_back(i, operand.open[0].second);
  if (operand.open.empty())
    instruction.arguments[index] = list(operand.items, type);
  else
    instruction.lists.push_back(std::move(operand));
}

void Interpreter::Compiler::add_mode(Instruction& instruction, std::uint32_t index, const Argument* given) {
  const auto& schema = instruction.callee.schema();
  const ModeArgument* row = mode_argument(schema.arguments()[index].name());
  const IValue& value = instruction.arguments[index];
  if (!row || !given) return;
  if (!row->is_flag) {
    if (value.isDouble() && value.toDouble() > 0) {
      instruction.evaluation.emplace_back(index, 0.0);
      ++flags_, ++flags_in_training_;
    }
    return;
  }
  const Node& node = target_.graph_.nodes[instruction.node];
  const std::string statistics(row->statistics);
  const bool has_place = schema.argumentIndexWithName(statistics).has_value();
  const bool is_norm = has_place || schema.argumentIndexWithName("eps");
  const bool has_none = is_norm && (!find(node, statistics) || is_none(find(node, statistics)));
  if (!value.isBool() || has_none) return;
  // Whoever freezes a norm's weights has its statistics stay as well.
  if (is_norm && !value.toBool() && is_frozen(find(node, "weight"))) return;
  ++flags_;
  if (is_norm && !value.toBool()) fixed_norms_.push_back(&node);
  if (!value.toBool()) return;
  ++flags_in_training_;
  instruction.evaluation.emplace_back(index, false);
  // The schema of a norm with statistics does not say that it writes them.
  for (const Operand& operand : instruction.operands)
    if (!statistics.empty() && schema.arguments()[operand.argument].name().starts_with("running_")) {
      instruction.writes.push_back(target_.memory_[operand.slot]);
      instruction.statistics.push_back(operand.argument);
    }
}

/// Whether it is a parameter that is not trained.
bool Interpreter::Compiler::is_frozen(const Argument* weight) const {
  const auto* name =
      weight && weight->items.size() == 1 ? std::get_if<ValueName>(weight->items.data()) : nullptr;
  return name && std::any_of(target_.graph_.inputs.begin(), target_.graph_.inputs.end(), [&](const Input& i) {
           return i.kind == Input::Kind::Parameter && i.value == name->name && !i.trained;
         });
}

/// By the schema: what an operator gives may lie in the memory of an argument, and where it writes.
void Interpreter::Compiler::follow_memory(Instruction& instruction) {
  const auto& schema = instruction.callee.schema();
  for (std::uint32_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    if (!alias) continue;
    for (const Slot source : instruction.sources(i)) {
      const Slot memory = target_.memory_[source];
      if (alias->isWrite()) instruction.writes.push_back(memory);
      for (const Result& result : instruction.results)
        for (const Slot slot : result.slots)
          if (slot != kNowhere) target_.memory_[slot] = memory;
    }
  }
}

void Interpreter::Compiler::find_last_reads() {
  std::vector<char> read(target_.names_.size(), 0);
  for (const Slot slot : target_.whole_.outputs) read[slot] = 1;
  for (const auto& [buffer, value] : target_.whole_.mutations) read[buffer] = read[value] = 1;
  for (auto instruction = target_.instructions_.rbegin(); instruction != target_.instructions_.rend();
       ++instruction) {
    const auto see = [&](Slot slot) {
      if (slot != kNowhere && !std::exchange(read[slot], 1)) instruction->last_reads.push_back(slot);
    };
    for (const Result& result : instruction->results)
      for (const Slot slot : result.slots) see(slot);
    for (const Slot slot : instruction->sources()) see(slot);
  }
}

Interpreter::Slot Interpreter::Compiler::new_slot(const std::string& value) {
  const auto slot = static_cast<Slot>(target_.names_.size());
  if (!slots_.emplace(value, slot).second)
    throw Error(ErrorKind::Data, fmt::format("its graph is damaged: two nodes give {}", value));
  target_.names_.push_back(value);
  target_.memory_.push_back(slot);
  return slot;
}

Interpreter::Slot Interpreter::Compiler::slot_of(const std::string& value) const {
  const auto slot = slots_.find(value);
  // After an operator that there is none of, what reads its values has nothing to read either.
  if (slot != slots_.end()) return slot->second;
  if (!problems_.empty()) return 0;
  throw Error(ErrorKind::Data, fmt::format("its graph is damaged: no node before gives {}", value));
}

void Interpreter::Compiler::report(const Node& node, const std::string& why) {
  const std::string name = operator_name(node);
  if (problems_.emplace(name, fmt::format("{}, {}", place_of(node), why)).second) order_.push_back(name);
}

}  // namespace taxon::model::exported
