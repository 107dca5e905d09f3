#pragma once

#include <ATen/core/function_schema.h>

#include <optional>
#include <string_view>

namespace taxon::model::exported {

/// An exported graph has the mode that it was exported in baked into the arguments of dropout, batch norm and
/// their like. By the names that such arguments have in PyTorch's schemas they are found again.
struct ModeArgument {
  std::string_view name;
  /// True in training, false in evaluation. If not, it is a probability of dropout, 0 in evaluation.
  bool is_flag;
  /// Where this argument is None the flag stays as it is: there are no running statistics to evaluate with.
  std::string_view statistics;
};

/// The row of an argument of that name; null: it does not depend on the mode.
const ModeArgument* mode_argument(std::string_view name);

/// Which argument of an operator is the probability with which it drops values in training.
std::optional<std::size_t> dropout_argument(const c10::FunctionSchema& schema);

}  // namespace taxon::model::exported
