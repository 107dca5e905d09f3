#pragma once

#include <string>

#include "plan/catalogue.h"

namespace taxon::plan {

/// docs/plan.md: every key with its default, what it allows and its sentence, and the legality table.
std::string plan_reference(const Catalogue& catalogue);

}  // namespace taxon::plan
