#pragma once

#include <span>

#include "plan/legality.h"

namespace taxon::plan {

/// The rows of the legality table about gradients that travel as sufficient factors.
std::span<const LegalityRow> factor_legality();

}  // namespace taxon::plan
