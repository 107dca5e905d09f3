#include <fmt/format.h>

#include "model/torch/networks/module_network.h"
#include "model/torch/networks/row.h"
#include "model/torch/networks/width.h"

namespace taxon::model {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Dropout;
using torch::nn::Flatten;
using torch::nn::MaxPool2d;
using torch::nn::ReLU;

/// Sermanet et al., "OverFeat: integrated recognition, localization and detection using convolutional
/// networks", ICLR 2014, the fast model; published for images of 231 x 231.
std::unique_ptr<Network> make_overfeat_fast(const ModelContext& context) {
  const auto options = context.plan->options.read<WidthOptions>();
  const data::SampleShape& shape = context.shape;
  require_images(shape, "overfeat-fast", 71);
  const auto left = [](std::int64_t extent) { return (((extent - 11) / 4 + 1) / 2 - 4) / 2 / 2; };
  struct Layer {
    std::int64_t channels, kernel, stride, padding;
    bool pools;
  };
  constexpr Layer kLayers[] = {{96, 11, 4, 0, true},
                               {256, 5, 1, 0, true},
                               {512, 3, 1, 1, false},
                               {1024, 3, 1, 1, false},
                               {1024, 3, 1, 1, true}};
  Chain layers;
  std::int64_t channels = shape.input[0];
  int number = 0;
  for (const Layer& layer : kLayers) {
    ++number;
    const std::int64_t out = options.of(layer.channels);
    layers->push_back(
        fmt::format("conv{}", number),
        Conv2d(Conv2dOptions(channels, out, layer.kernel).stride(layer.stride).padding(layer.padding)));
    layers->push_back(fmt::format("relu{}", number), ReLU());
    if (layer.pools) layers->push_back(fmt::format("pool{}", number), MaxPool2d(2));
    channels = out;
  }
  layers->push_back("flatten", Flatten());
  std::int64_t features = channels * left(shape.input[1]) * left(shape.input[2]);
  for (const auto& [name, width] : {std::pair("fc6", 3072), std::pair("fc7", 4096)}) {
    if (options.dropout > 0) layers->push_back(fmt::format("drop_{}", name), Dropout(options.dropout));
    layers->push_back(name, DirectLinear(features, options.of(width)));
    layers->push_back(fmt::format("relu_{}", name), ReLU());
    features = options.of(width);
  }
  layers->push_back("fc8", DirectLinear(features, shape.classes));
  return std::make_unique<ModuleNetwork>(layers, at::MemoryFormat::ChannelsLast);
}

}  // namespace

ModelRow overfeat_fast() {
  return {.name = "overfeat-fast",
          .sentence =
              "5 convolutions, 3 fully connected layers (OverFeat, fast): 145.9 M parameters on 231 x 231 "
              "inputs.",
          .make = build<make_overfeat_fast>,
          .options = plan::option_keys<WidthOptions>};
}

}  // namespace taxon::model
