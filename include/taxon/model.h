#pragma once

/// What is trained: a model of the table, a TorchScript file (both by model::make_model()), or a class of
/// one's own that implements model::Model.
#include "model/model.h"
#include "model/perceptron.h"

namespace taxon {

using model::Model;

}  // namespace taxon
