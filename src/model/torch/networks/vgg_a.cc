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

/// Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015,
/// table 1, configuration A; published for images of 224 x 224.
std::unique_ptr<Network> make_vgg_a(const ModelContext& context) {
  const auto options = context.plan->options.read<WidthOptions>();
  const data::SampleShape& shape = context.shape;
  constexpr std::int64_t kShrinks = 32;  // five poolings
  require_images(shape, "vgg-a", kShrinks);
  struct Layer {
    std::int64_t channels;
    bool pools;
  };
  constexpr Layer kLayers[] = {{64, true},   {128, true}, {256, false}, {256, true},
                               {512, false}, {512, true}, {512, false}, {512, true}};
  Chain layers;
  std::int64_t channels = shape.input[0];
  int number = 0;
  for (const Layer& layer : kLayers) {
    ++number;
    const std::int64_t out = options.of(layer.channels);
    layers->push_back(fmt::format("conv{}", number), Conv2d(Conv2dOptions(channels, out, 3).padding(1)));
    layers->push_back(fmt::format("relu{}", number), ReLU());
    if (layer.pools) layers->push_back(fmt::format("pool{}", number), MaxPool2d(2));
    channels = out;
  }
  layers->push_back("flatten", Flatten());
  std::int64_t features = channels * (shape.input[1] / kShrinks) * (shape.input[2] / kShrinks);
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

ModelRow vgg_a() {
  return {.name = "vgg-a",
          .sentence =
              "8 convolutions of 3 x 3, 3 fully connected layers (VGG-11): 132.9 M parameters on 224 x 224 "
              "inputs.",
          .make = build<make_vgg_a>,
          .options = plan::option_keys<WidthOptions>};
}

}  // namespace taxon::model
