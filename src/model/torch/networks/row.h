#pragma once

#include <memory>

#include "model/model.h"
#include "model/torch/network.h"
#include "model/torch/torch_model.h"

namespace taxon::model {

/// ModelRow::make of a row whose file has `network`, a function of the context. Values are drawn from the
/// framework's default generator, which the context's seed has set.
template <std::unique_ptr<Network> (*network)(const ModelContext&)>
std::unique_ptr<Model> build(const ModelContext& context) {
  return std::make_unique<TorchModel>(context.plan->name, context, [&] { return network(context); });
}

}  // namespace taxon::model
