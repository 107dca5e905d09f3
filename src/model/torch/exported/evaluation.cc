#include "model/torch/exported/evaluation.h"

#include <algorithm>

namespace taxon::model::exported {
namespace {

constexpr ModeArgument kRows[] = {
    {"train", true, ""},                        // dropout and its like, lstm, gru
    {"training", true, "running_mean"},         // batch_norm, native_batch_norm; rrelu
    {"use_input_stats", true, "running_mean"},  // instance_norm
    {"dropout_p", false, ""},                   // scaled_dot_product_attention
};

}  // namespace

const ModeArgument* mode_argument(std::string_view name) {
  const auto* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const ModeArgument& r) { return r.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace taxon::model::exported
