#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace taxon::report {

/// Whether every bucket is told with all that it holds, or as many as fit a screen.
enum class Detail { Screen, All };

/// A line for each bucket, and for each reason why it travels as it does. Screen: of the first few, no longer
/// than a terminal's line, and one that sums up the others. Empty where nothing travels: one worker.
std::vector<std::string> bucket_lines(const plan::ResolvedPlan& resolved, Detail detail);

}  // namespace taxon::report
