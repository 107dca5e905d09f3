#pragma once

#include "support/strange_json.h"

namespace taxon::launch {

/// Lines between a launcher and its agents that are almost right: what is read of them is refused as not
/// understood, or it is a job, a report, an address, a time that there can be. Throws std::logic_error where
/// that is not so.
void lie_in_launch_lines(const test::Draw& draw);

}  // namespace taxon::launch
