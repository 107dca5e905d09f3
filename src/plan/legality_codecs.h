#pragma once

#include <span>

#include "plan/legality.h"

namespace taxon::plan {

/// The rows of the legality table about codecs.
std::span<const LegalityRow> codec_legality();

}  // namespace taxon::plan
