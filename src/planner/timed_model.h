#pragma once

#include <memory>

#include "model/model.h"
#include "plan/profile.h"

namespace taxon::planner {

/// The same model, whose passes take what the profile measured from bind() on; before, as where stages are
/// cut, it is what it is in a run. Its spec's segments and parameters are found by their names. Throws
/// Error{Usage}, and so does divide(), for those that the profile has not, or has in another shape.
std::unique_ptr<model::Model> with_times(std::unique_ptr<model::Model> model,
                                         const plan::ModelProfile& profile);

}  // namespace taxon::planner
