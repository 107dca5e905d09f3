#pragma once

#include <span>

#include "parallel/layer_kind.h"

namespace torch::nn {
class Module;
}

namespace taxon::model {

/// Kinds of the framework's layers; the last one has every layer.
std::span<const parallel::LayerKind> layer_kinds();
/// One's own first.
const parallel::LayerKind& kind_of(const parallel::LayerFacts& layer,
                                   std::span<const parallel::LayerKind> own = {});
parallel::LayerFacts facts_of(const torch::nn::Module& module, std::vector<std::int64_t> inputs);

}  // namespace taxon::model
