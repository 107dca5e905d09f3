#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "plan/plan.h"

namespace taxon::exchange {

/// The end of a run. `step` counts from 1; `what` is not finite, in words: "the loss of rank 2".
Error diverged(std::int64_t step, const std::string& what, ErrorContext context = {});

}  // namespace taxon::exchange
