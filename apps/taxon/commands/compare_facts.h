#pragma once

#include "apps/taxon/commands/compare.h"
#include "report/comparison.h"

namespace taxon::app {

/// What a report must say beside its figures: the machine, the hosts that it plays (empty: none), the
/// command, the versions.
std::vector<std::pair<std::string, std::string>> facts_of(const CompareArguments& arguments,
                                                          const std::string& emulated);

}  // namespace taxon::app
