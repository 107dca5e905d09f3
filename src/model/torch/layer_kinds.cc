#include "model/torch/layer_kinds.h"

#include <c10/util/Type.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "base/check.h"
#include "model/torch/networks/layers.h"

namespace taxon::model {
namespace {

using parallel::LayerFacts;
using parallel::NamedShape;

/// Of classes alone that are known: one derived from them may compute anything.
template <class... Layers>
bool is_exactly(const LayerFacts& layer) {
  return ((layer.type == c10::demangle_type<Layers>()) || ...);
}

bool is_linear(const LayerFacts& layer) {
  return is_exactly<torch::nn::LinearImpl, DirectLinearImpl>(layer) && layer.inputs.size() == 2 &&
         layer.inputs[0] == 1;
}

bool is_convolution(const LayerFacts& layer) {
  return is_exactly<torch::nn::Conv2dImpl>(layer) && layer.inputs.size() == 4 &&
         layer.parameters.front().shape[1] == layer.inputs[1];
}

/// Of whatever class, which its buffers show.
bool is_norm(const LayerFacts& layer) {
  const auto keeps = [&](std::string_view name) {
    return std::any_of(layer.buffers.begin(), layer.buffers.end(),
                       [&](const NamedShape& buffer) { return buffer.name == name; });
  };
  return keeps("running_mean") && keeps("running_var") &&
         std::all_of(layer.parameters.begin(), layer.parameters.end(),
                     [](const NamedShape& parameter) { return parameter.shape.size() == 1; });
}

std::vector<NamedShape> shapes_of(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  std::vector<NamedShape> shapes;
  for (const auto& item : tensors) shapes.push_back({item.key(), item.value().sizes().vec()});
  return shapes;
}

}  // namespace

std::span<const parallel::LayerKind> layer_kinds() {
  static const parallel::LayerKind kRows[] = {
      {.name = "linear",
       .sentence = "a linear layer of features alone",
       .has = is_linear,
       .splits = {"samples", "outputs", "inputs"}},
      {.name = "convolution",
       .sentence = "a convolution without groups",
       .has = is_convolution,
       .splits = {"samples", "outputs", "inputs"}},
      {.name = "norm",
       .sentence = "a norm of each feature over samples",
       .has = is_norm,
       .splits = {"features", "none"}},
      {.name = "of_samples",
       .sentence = "any layer that keeps nothing of its samples",
       .has = [](const LayerFacts& layer) { return layer.buffers.empty(); },
       .splits = {"samples", "none"}},
      {.name = "any",
       .sentence = "any layer",
       .has = [](const LayerFacts&) { return true; },
       .splits = {"none"}},
  };
  return kRows;
}

const parallel::LayerKind& kind_of(const LayerFacts& layer, std::span<const parallel::LayerKind> own) {
  for (std::span<const parallel::LayerKind> rows : {own, layer_kinds()})
    for (const parallel::LayerKind& kind : rows)
      if (kind.has(layer)) return kind;
  TAXON_CHECK(false, layer.type);
  return layer_kinds().back();
}

LayerFacts facts_of(const torch::nn::Module& module, std::vector<std::int64_t> inputs) {
  return {module.name(), shapes_of(module.named_parameters()), shapes_of(module.named_buffers()),
          std::move(inputs)};
}

}  // namespace taxon::model
