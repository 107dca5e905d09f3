#pragma once

#include <string>
#include <string_view>

#include "plan/plan.h"

namespace taxon::plan {

/// Whether model.name is the path of a file, a program of torch.export, rather than a row of the model table:
/// it ends in ".pt2".
bool is_model_file(std::string_view name);

/// What profiles and reports call the plan's model: its row, or its file's name without folder and ending.
std::string model_label(const ModelPlan& model);

}  // namespace taxon::plan
