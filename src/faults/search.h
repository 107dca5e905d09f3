#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "faults/tally.h"

namespace taxon::faults {

/// Everything about the trial follows from the seed: whoever has it can repeat it. Runs the shape without
/// faults, then twice with them; and if the plan keeps checkpoints and the run did not end well, once more
/// from what it left. Throws Error{Usage} if the recipe fits none of many shapes.
Trial try_seed(const Job& job, std::uint64_t seed);

/// First and last.
struct Seeds {
  std::uint64_t first = 1, last = 1;
};
/// "1..10000" or "17". Throws Error{Usage}.
Seeds parse_seeds(const std::string& text);

enum class GoOn { Yes, No };
/// Tries one seed after the other, shows each trial, and stops when told to.
Tally search(const Job& job, Seeds seeds, const std::function<GoOn(const Trial&)>& show);

}  // namespace taxon::faults
