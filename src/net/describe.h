#pragma once

#include <string>

#include "net/tag.h"
#include "task/wait.h"

namespace taxon::net {

/// "all_reduce", for hang reports and errors.
std::string describe_operation(const Tag& tag);
/// "unit 3, use 120, round 2 (group 0x5b1f, lane 0)", for hang reports and errors.
std::string describe_tag(const Tag& tag);
/// The same with the name that the rank's units have, if they have one: "bucket 3 (fc1.weight), step 121,
/// round 2".
std::string describe_subject(const Tag& tag, const task::PendingOps& waits);

}  // namespace taxon::net
