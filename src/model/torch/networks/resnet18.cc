#include "model/torch/networks/module_network.h"
#include "model/torch/networks/residual.h"
#include "model/torch/networks/row.h"

namespace taxon::model {
namespace {

std::vector<BlockConvolution> basic(std::int64_t channels, std::int64_t stride) {
  return {{channels, 3, stride}, {channels, 3, 1}};
}

std::unique_ptr<Network> make_resnet18(const ModelContext& context) {
  return std::make_unique<ModuleNetwork>(make_residual(context, {"resnet18", {2, 2, 2, 2}, basic}));
}

}  // namespace

ModelRow resnet18() {
  return {.name = "resnet18",
          .sentence = "18 layers with batch norm, 3 x 3 stem: 11.2 M parameters.",
          .make = build<make_resnet18>,
          .options = plan::option_keys<ResidualOptions>};
}

}  // namespace taxon::model
