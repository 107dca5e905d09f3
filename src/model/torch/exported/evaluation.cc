#include "model/torch/exported/evaluation.h"

#include <algorithm>

namespace taxon::model::exported {
namespace {

constexpr ModeArgument kModeArguments[] = {
    {"train", true, ""},                        // dropout and its like, lstm, gru
    {"training", true, "running_mean"},         // batch_norm, native_batch_norm; rrelu
    {"use_input_stats", true, "running_mean"},  // instance_norm
    {"dropout_p", false, ""},                   // scaled_dot_product_attention
};

/// An argument, and one that the schema must have beside it: "p" alone may be a norm's.
struct DropoutArgument {
  const char* name;
  const char* beside;
};
constexpr DropoutArgument kDropout[] = {
    {"p", "train"},              // dropout and its like
    {"dropout", "train"},        // lstm, gru
    {"dropout_p", "is_causal"},  // scaled_dot_product_attention
};

}  // namespace

std::optional<std::size_t> dropout_argument(const c10::FunctionSchema& schema) {
  for (const DropoutArgument& row : kDropout)
    if (const auto index = schema.argumentIndexWithName(row.name);
        index && schema.argumentIndexWithName(row.beside))
      return static_cast<std::size_t>(*index);
  return std::nullopt;
}

const ModeArgument* mode_argument(std::string_view name) {
  const auto* row = std::find_if(std::begin(kModeArguments), std::end(kModeArguments),
                                 [&](const ModeArgument& r) { return r.name == name; });
  return row == std::end(kModeArguments) ? nullptr : row;
}

}  // namespace taxon::model::exported
