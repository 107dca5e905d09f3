#include <fmt/format.h>

#include "model/torch/networks/module_network.h"
#include "model/torch/networks/row.h"
#include "model/torch/networks/width.h"

namespace taxon::model {
namespace {

using torch::nn::Dropout;
using torch::nn::Flatten;
using torch::nn::Sigmoid;

/// Seide et al., "Conversational speech transcription using context-dependent deep neural networks",
/// Interspeech 2011, as Das et al. scale it (arXiv 1602.06709); published for 429 features of a frame and its
/// neighbours, and 9304 states.
std::unique_ptr<Network> make_cd_dnn(const ModelContext& context) {
  const auto options = context.plan->options.read<WidthOptions>();
  const data::SampleShape& shape = context.shape;
  constexpr int kHidden = 7;
  Chain layers;
  layers->push_back("flatten", Flatten());
  std::int64_t features = shape.elements();
  for (int number = 1; number <= kHidden; ++number) {
    if (options.dropout > 0 && number > 1)
      layers->push_back(fmt::format("drop{}", number), Dropout(options.dropout));
    layers->push_back(fmt::format("fc{}", number), DirectLinear(features, options.of(2048)));
    layers->push_back(fmt::format("sigmoid{}", number), Sigmoid());
    features = options.of(2048);
  }
  layers->push_back("fc8", DirectLinear(features, shape.classes));
  return std::make_unique<ModuleNetwork>(layers);
}

}  // namespace

ModelRow cd_dnn() {
  return {.name = "cd-dnn",
          .sentence =
              "7 hidden layers of 2048, sigmoids, for frames of speech: 45.1 M parameters with 429 inputs "
              "and 9304 states.",
          .make = build<make_cd_dnn>,
          .options = plan::option_keys<WidthOptions>};
}

}  // namespace taxon::model
