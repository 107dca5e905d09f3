#include "model/torch/networks/module_network.h"
#include "model/torch/networks/residual.h"
#include "model/torch/networks/row.h"

namespace taxon::model {
namespace {

/// As torchvision has it, with the stride in the middle.
std::vector<BlockConvolution> bottleneck(std::int64_t channels, std::int64_t stride) {
  return {{channels, 1, 1}, {channels, 3, stride}, {4 * channels, 1, 1}};
}

/// Convolutions have torchvision's initial values (He et al., "Delving deep into rectifiers", ICCV 2015).
std::unique_ptr<Network> make_resnet50(const ModelContext& context) {
  Chain layers = make_residual(context, {"resnet50", {3, 4, 6, 3}, bottleneck});
  for (const auto& module : layers->modules())
    if (const auto* layer = module->as<torch::nn::Conv2d>())
      torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  return std::make_unique<ModuleNetwork>(layers);
}

}  // namespace

ModelRow resnet50() {
  return {
      .name = "resnet50",
      .sentence = "50 layers of bottleneck blocks with batch norm: 23.5 M parameters with the 3 x 3 stem.",
      .make = build<make_resnet50>,
      .options = plan::option_keys<ResidualOptions>};
}

}  // namespace taxon::model
