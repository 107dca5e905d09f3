#include "model/torch/networks/module_network.h"
#include "model/torch/networks/row.h"

namespace taxon::model {
namespace {

using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Flatten;
using torch::nn::MaxPool2d;
using torch::nn::ReLU;

/// LeCun et al., "Gradient-based learning applied to document recognition", Proceedings of the IEEE 1998,
/// figure 2, with rectifiers and pooling by maxima.
std::unique_ptr<Network> make_lenet5(const ModelContext& context) {
  const data::SampleShape& shape = context.shape;
  require_images(shape, "lenet5", 12);
  const auto left = [](std::int64_t extent) { return (extent / 2 - 4) / 2; };
  Chain layers;
  layers->push_back("conv1", Conv2d(Conv2dOptions(shape.input[0], 6, 5).padding(2)));
  layers->push_back("relu1", ReLU());
  layers->push_back("pool1", MaxPool2d(2));
  layers->push_back("conv2", Conv2d(Conv2dOptions(6, 16, 5)));
  layers->push_back("relu2", ReLU());
  layers->push_back("pool2", MaxPool2d(2));
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", DirectLinear(16 * left(shape.input[1]) * left(shape.input[2]), 120));
  layers->push_back("relu3", ReLU());
  layers->push_back("fc2", DirectLinear(120, 84));
  layers->push_back("relu4", ReLU());
  layers->push_back("fc3", DirectLinear(84, shape.classes));
  return std::make_unique<ModuleNetwork>(layers);
}

}  // namespace

ModelRow lenet5() {
  return {.name = "lenet5",
          .sentence = "Conv 6-16, fully connected 120-84: 0.06 M parameters on 28 x 28 inputs.",
          .make = build<make_lenet5>};
}

}  // namespace taxon::model
