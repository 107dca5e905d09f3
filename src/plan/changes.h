#pragma once

#include <string>

#include "plan/plan.h"

namespace taxon::plan {

/// The plan as YAML without `resolved` and without what has its default: a recipe of the same plan, as short
/// as can be. Elements of lists of sections leave out their own defaults.
/// With a catalogue, keys that rows of the optimiser and the learning rate have at their defaults are left
/// out too.
std::string write_changes(const Plan& plan, const Catalogue* catalogue = nullptr);

}  // namespace taxon::plan
