#pragma once

#include "apps/taxon/compare_command.h"
#include "report/comparison.h"

namespace taxon::app {

/// What a report must say beside its figures: the machine, the command, the versions.
std::vector<std::pair<std::string, std::string>> facts_of(const CompareArguments& arguments);

}  // namespace taxon::app
