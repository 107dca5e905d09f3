#pragma once

#include <string>
#include <vector>

#include "model/torch/named_tensor.h"

namespace taxon::model::exported {

/// A name for each stage by its own parameters, none of which another stage has: the innermost module that
/// has them all, "layer1.0"; where that is the program itself, or has another stage's too, the part of it
/// with most elements, and so on inwards.
std::vector<std::string> stage_names(const std::vector<std::vector<NamedTensor>>& stages);

}  // namespace taxon::model::exported
