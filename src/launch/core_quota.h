#pragma once

#include <cstdint>

#include "launch/control_groups.h"

namespace taxon::launch {

/// A limit on processor time.
struct ProcessorQuota {
  double cores = 0;   // 0: no limit, or none that can be read
  double period = 0;  // seconds in which it is dealt out
};

/// What the control groups of this process allow: the least of its own group and all groups around it.
ProcessorQuota core_quota(const ControlGroups& groups = {});
/// How often quotas of those groups have paused what is in them, since the groups were made.
std::uint64_t quota_pauses(const ControlGroups& groups = {});

}  // namespace taxon::launch
