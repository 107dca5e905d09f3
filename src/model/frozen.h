#pragma once

#include <string>
#include <vector>

namespace taxon::model {

/// Which of a model's parameters the patterns of plan::ModelPlan::frozen name. Throws Error{Usage} that lists
/// the patterns that name none.
std::vector<bool> find_frozen(const std::string& model, const std::vector<std::string>& parameters,
                              const std::vector<std::string>& patterns);

}  // namespace taxon::model
