#include "model/torch/networks/module_network.h"
#include "model/torch/networks/row.h"

namespace taxon::model {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Flatten;
using torch::nn::MaxPool2d;
using torch::nn::ReLU;

std::unique_ptr<Network> make_cnn(const ModelContext& context) {
  const data::SampleShape& shape = context.shape;
  require_images(shape, "cnn", 4);
  const std::int64_t features = 64 * (shape.input[1] / 4) * (shape.input[2] / 4);
  Chain layers;
  layers->push_back("conv1", Conv2d(Conv2dOptions(shape.input[0], 32, 3).padding(1)));
  layers->push_back("relu1", ReLU());
  layers->push_back("pool1", MaxPool2d(2));
  layers->push_back("conv2", Conv2d(Conv2dOptions(32, 64, 3).padding(1)));
  layers->push_back("relu2", ReLU());
  layers->push_back("pool2", MaxPool2d(2));
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", DirectLinear(features, 1024));
  layers->push_back("relu3", ReLU());
  layers->push_back("fc2", DirectLinear(1024, shape.classes));
  // Poolings of many channels are several times as fast where these lie side by side.
  return std::make_unique<ModuleNetwork>(layers, at::MemoryFormat::ChannelsLast);
}

}  // namespace

ModelRow cnn() {
  return {.name = "cnn",
          .sentence = "Conv 32-64, fully connected 1024: 3.24 M parameters on 28 x 28 inputs.",
          .make = build<make_cnn>};
}

}  // namespace taxon::model
