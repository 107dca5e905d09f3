#pragma once

#include "apps/taxon/commands/compare.h"
#include "base/problems.h"
#include "report/comparison.h"

namespace taxon::app {

/// The systems of a comparison on virtual time, as `taxon simulate` runs them in Timing. All mistakes are
/// found before the first one runs and thrown as one Error{Usage}; `problems` holds those that are known.
/// `code` becomes the exit code of the first that fails, or 0.
report::Comparison compare_simulated(const CompareArguments& arguments, Problems& problems, int* code);

}  // namespace taxon::app
