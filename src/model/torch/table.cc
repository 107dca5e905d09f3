#include <fmt/format.h>

#include "base/error.h"
#include "model/model.h"
#include "model/torch/builders.h"

namespace taxon::model {

std::span<const ModelRow> model_table() {
  static constexpr ModelRow kRows[] = {
      {"mlp", "fc 256-128: 0.24 M parameters", build_mlp},
      {"cnn", "conv 32-64, fc 1024: 3.24 M parameters", build_cnn},
      {"resnet18", "18 layers with batch norm, 3 x 3 stem: 11.2 M parameters", build_resnet18},
  };
  return kRows;
}

std::unique_ptr<Model> make_model(const ModelContext& context) {
  if (!context.plan->torchscript.empty()) return build_script(context);
  std::string names;
  for (const ModelRow& row : model_table()) {
    if (row.name == context.plan->name) return row.make(context);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  throw Error(ErrorKind::Usage,
              fmt::format("model.name: there is no model \"{}\"; there are {}, and any TorchScript file by "
                          "model.torchscript",
                          context.plan->name, names));
}

}  // namespace taxon::model
