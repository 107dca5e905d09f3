#include <fmt/format.h>

#include "base/error.h"
#include "base/table_row.h"
#include "model/model.h"
#include "plan/model_file.h"
#if TAXON_WITH_TORCH
#include "model/torch/builders.h"
#endif

namespace taxon::model {
namespace {

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

std::unique_ptr<Model> make(const ModelRow& row, const ModelContext& context) {
  const bool are_tokens = context.shape.input_type == DType::Int64;
  if (are_tokens != row.takes_tokens)
    throw Error(
        ErrorKind::Usage,
        fmt::format("model {} takes {}, and samples of the data set have {}; choose another model or "
                    "data set",
                    row.name, row.takes_tokens ? "tokens" : "numbers", data::describe(context.shape)));
  if (!context.shape.more.empty())
    throw Error(ErrorKind::Usage,
                fmt::format("model {} takes one tensor, and samples of the data set have {}; "
                            "give it one (data.inputs), or a model of your own",
                            row.name, data::describe(context.shape)));
  return row.make(context);
}

}  // namespace

std::span<const ModelRow> model_table() {
  static const ModelRow kRows[] = {
#if TAXON_WITH_TORCH
    TAXON_ROW(ModelRow, mlp),
    TAXON_ROW(ModelRow, lenet5),
    TAXON_ROW(ModelRow, cnn),
    TAXON_ROW(ModelRow, resnet18),
    TAXON_ROW(ModelRow, resnet50),
    TAXON_ROW(ModelRow, vit),
    TAXON_ROW(ModelRow, gpt),
    TAXON_ROW(ModelRow, lstm),
    TAXON_ROW(ModelRow, alexnet),
    TAXON_ROW(ModelRow, vgg_a),
    TAXON_ROW(ModelRow, overfeat_fast),
    TAXON_ROW(ModelRow, cd_dnn),
#endif
    TAXON_ROW(ModelRow, perceptron),
  };
  return kRows;
}

std::vector<plan::Catalogue::Model> known_models() {
  std::vector<plan::Catalogue::Model> known;
  for (const ModelRow& row : model_table())
    known.push_back({.name = std::string(row.name),
                     .sentence = std::string(row.sentence),
                     .takes_tokens = row.takes_tokens,
                     .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                     .rules = row.rules});
  return known;
}

Task task_of(const ModelContext& context) {
  return make_task(context.task ? *context.task : plan::TaskPlan(), context.shape);
}

std::unique_ptr<Model> make_model(const ModelContext& context) {
  if (!context.plan->torchscript.empty()) return make_script(context);
  if (plan::is_model_file(context.plan->name)) return make_exported(context);
  std::string names;
  for (const ModelRow& row : model_table()) {
    if (row.name == context.plan->name) return make(row, context);
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  throw Error(
      ErrorKind::Usage,
      fmt::format("model.name: there is no model \"{}\"; there are {}, any program of "
                  "torch.export as a file that ends in .pt2, and any TorchScript file by model.torchscript",
                  context.plan->name, names));
}

}  // namespace taxon::model
