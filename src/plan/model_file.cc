#include "plan/model_file.h"

#include <filesystem>

namespace taxon::plan {

bool comes_in_a_file(const ModelPlan& model) {
  return !model.torchscript.empty() || is_model_file(model.name);
}

bool is_model_file(std::string_view name) { return name.ends_with(".pt2"); }

std::string model_label(const ModelPlan& model) {
  if (!model.name.empty() && !is_model_file(model.name)) return model.name;
  return std::filesystem::path(model.name.empty() ? model.torchscript : model.name).stem().string();
}

}  // namespace taxon::plan
