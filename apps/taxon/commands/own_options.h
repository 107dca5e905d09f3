#pragma once

#include <string>
#include <vector>

#include "base/problems.h"
#include "plan/options.h"

namespace taxon::app {

/// Words KEY=VALUE as options; those that are none join the problems, each behind the name of its option.
plan::Options parse_own_options(const std::vector<std::string>& words, const std::string& option,
                                Problems& problems);

}  // namespace taxon::app
