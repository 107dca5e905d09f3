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
using torch::nn::MaxPool2dOptions;
using torch::nn::ReLU;

/// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997: AlexNet
/// with one column; published for images of 224 x 224.
std::unique_ptr<Network> make_alexnet(const ModelContext& context) {
  const auto options = context.plan->options.read<WidthOptions>();
  const data::SampleShape& shape = context.shape;
  require_images(shape, "alexnet", 63);
  const auto pooled = [](std::int64_t extent) { return (extent - 3) / 2 + 1; };
  const auto left = [&](std::int64_t extent) { return pooled(pooled(pooled((extent + 4 - 11) / 4 + 1))); };
  struct Layer {
    std::int64_t channels, kernel, stride, padding;
    bool pools;
  };
  constexpr Layer kLayers[] = {{64, 11, 4, 2, true},
                               {192, 5, 1, 2, true},
                               {384, 3, 1, 1, false},
                               {256, 3, 1, 1, false},
                               {256, 3, 1, 1, true}};
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
    if (layer.pools)
      layers->push_back(fmt::format("pool{}", number), MaxPool2d(MaxPool2dOptions(3).stride(2)));
    channels = out;
  }
  layers->push_back("flatten", Flatten());
  std::int64_t features = channels * left(shape.input[1]) * left(shape.input[2]);
  for (const auto& [name, width] : {std::pair("fc6", 4096), std::pair("fc7", 4096)}) {
    if (options.dropout > 0) layers->push_back(fmt::format("drop_{}", name), Dropout(options.dropout));
    layers->push_back(name, DirectLinear(features, options.of(width)));
    layers->push_back(fmt::format("relu_{}", name), ReLU());
    features = options.of(width);
  }
  layers->push_back("fc8", DirectLinear(features, shape.classes));
  return std::make_unique<ModuleNetwork>(layers, at::MemoryFormat::ChannelsLast);
}

}  // namespace

ModelRow alexnet() {
  return {.name = "alexnet",
          .sentence = "5 convolutions, 3 fully connected layers: 61.1 M parameters on 224 x 224 inputs.",
          .make = build<make_alexnet>,
          .options = plan::option_keys<WidthOptions>};
}

}  // namespace taxon::model
