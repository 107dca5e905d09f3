#pragma once

#include <string>

#include "net/tag.h"

namespace taxon::net {

/// "all_reduce", for hang reports and errors.
std::string describe_operation(const Tag& tag);
/// "bucket 3, step 120, round 2 (group 0x5b1f)", for hang reports and errors.
std::string describe_tag(const Tag& tag);

}  // namespace taxon::net
