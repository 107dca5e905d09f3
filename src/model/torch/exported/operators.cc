#include "model/torch/exported/operators.h"

#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include <algorithm>

namespace taxon::model::exported {
namespace {

constexpr std::string_view kNotes[] = {
    "torch.ops.aten._assert_tensor_metadata.default",
    "torch.ops.aten.sym_constrain_range.default",
    "torch.ops.aten.sym_constrain_range_for_size.default",
};

/// "torch.ops.aten.add.Tensor" is aten::add.Tensor, and an overload "default" has no name.
std::optional<c10::OperatorHandle> find_in_dispatcher(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (!target.starts_with(kPrefix)) return {};
  target.remove_prefix(kPrefix.size());
  const std::size_t space = target.find('.'), overload = target.rfind('.');
  if (space == std::string_view::npos || space == overload) return {};
  const std::string name = std::string(target.substr(0, space)) +
                           "::" + std::string(target.substr(space + 1, overload - space - 1));
  const std::string_view variant = target.substr(overload + 1);
  const auto found =
      c10::Dispatcher::singleton().findSchema({name, variant == "default" ? "" : std::string(variant)});
  if (!found) return {};
  return *found;
}

}  // namespace

bool is_note(const std::string& target) {
  return std::find(std::begin(kNotes), std::end(kNotes), target) != std::end(kNotes);
}

Operator::Operator(const OwnOperator& own)
    : own_schema_(std::make_shared<c10::FunctionSchema>(torch::jit::parseSchema(own.schema))),
      function_(own.function) {}

std::optional<Operator> Operator::find(const std::string& target) {
  for (const OwnOperator& row : symbolic_operators())
    if (row.target == target) return Operator(row);
  if (auto handle = find_in_dispatcher(target)) return Operator(*handle);
  for (const OwnOperator& row : substitute_operators())
    if (row.target == target) return Operator(row);
  return {};
}

bool Operator::is_random() const { return handle_ && handle_->hasTag(at::Tag::nondeterministic_seeded); }

}  // namespace taxon::model::exported
