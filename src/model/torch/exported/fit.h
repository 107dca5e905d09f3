#pragma once

#include <vector>

#include "data/sample_shape.h"
#include "model/torch/exported/graph.h"
#include "plan/model_file.h"

namespace taxon::model::exported {

/// What a program is given in each call.
std::vector<TensorMeta> user_inputs(const Graph& graph);

/// Throws Error{Data} unless the program takes samples of that shape to what it shall return.
void require_fit(const Graph& graph, const data::SampleShape& shape, plan::ModelReturns returns);

}  // namespace taxon::model::exported
