#include "model/torch/networks/module_network.h"
#include "model/torch/networks/row.h"

namespace taxon::model {
namespace {

using torch::nn::Flatten;
using torch::nn::ReLU;

std::unique_ptr<Network> make_mlp(const ModelContext& context) {
  const data::SampleShape& shape = context.shape;
  Chain layers;
  layers->push_back("flatten", Flatten());
  layers->push_back("fc1", DirectLinear(shape.elements(), 256));
  layers->push_back("relu1", ReLU());
  layers->push_back("fc2", DirectLinear(256, 128));
  layers->push_back("relu2", ReLU());
  layers->push_back("fc3", DirectLinear(128, shape.classes));
  return std::make_unique<ModuleNetwork>(layers);
}

}  // namespace

ModelRow mlp() {
  return {.name = "mlp",
          .sentence = "Fully connected 256-128: 0.24 M parameters on 28 x 28 inputs.",
          .make = build<make_mlp>};
}

}  // namespace taxon::model
