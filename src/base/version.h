#pragma once

#include <string>

namespace taxon {

/// "0.1.0": what ranks of one job must have in common, and what outputs record.
std::string version_number();

}  // namespace taxon
