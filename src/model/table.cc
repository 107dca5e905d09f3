#include <fmt/format.h>

#include "base/error.h"
#include "model/model.h"
#include "model/perceptron.h"
#include "plan/model_file.h"
#if TAXON_WITH_TORCH
#include "model/torch/builders.h"
#endif

namespace taxon::model {
namespace {

constexpr ModelRow kRows[] = {
#if TAXON_WITH_TORCH
    {"mlp", "fc 256-128: 0.24 M parameters", build_mlp},
    {"lenet5", "conv 6-16, fc 120-84: 0.06 M parameters", build_lenet5},
    {"cnn", "conv 32-64, fc 1024: 3.24 M parameters", build_cnn},
    {"resnet18", "18 layers with batch norm, 3 x 3 stem: 11.2 M parameters", build_resnet18},
#endif
    {"perceptron", "fc 16, without libtorch: for simulations and tests", build_perceptron},
};

#if TAXON_WITH_TORCH
std::unique_ptr<Model> make_script(const ModelContext& context) { return build_script(context); }
std::unique_ptr<Model> make_exported(const ModelContext& context) { return build_exported(context); }
#else
std::unique_ptr<Model> make_script(const ModelContext&) {
  throw Error(ErrorKind::Usage, "model.torchscript: this build has no libtorch; build with TAXON_WITH_TORCH");
}
std::unique_ptr<Model> make_exported(const ModelContext& context) {
  throw Error(
      ErrorKind::Usage,
      fmt::format("model.name: this build has no libtorch, which {} needs; build with TAXON_WITH_TORCH",
                  context.plan->name));
}
#endif

}  // namespace

std::span<const ModelRow> model_table() { return kRows; }

std::unique_ptr<Model> make_model(const ModelContext& context) {
  if (!context.plan->torchscript.empty()) return make_script(context);
  if (plan::is_model_file(context.plan->name)) return make_exported(context);
  std::string names;
  for (const ModelRow& row : model_table()) {
    if (row.name == context.plan->name) return row.make(context);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format("model.name: there is no model \"{}\"; there are {}, any program of "
                  "torch.export as a file that ends in .pt2, and any TorchScript file by model.torchscript",
                  context.plan->name, names));
}

}  // namespace taxon::model
