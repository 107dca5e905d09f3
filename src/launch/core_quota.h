#pragma once

#include <string>

namespace taxon::launch {

/// A limit on processor time.
struct ProcessorQuota {
  double cores = 0;   // 0: no limit, or none that can be read
  double period = 0;  // seconds in which it is dealt out
};

/// What the control groups of this process allow (containers, cgroup v1 and v2): the least of its own group
/// and all groups around it. `membership` has the format of /proc/self/cgroup, `root` is where the
/// hierarchies are mounted.
ProcessorQuota core_quota(const std::string& membership = "/proc/self/cgroup",
                          const std::string& root = "/sys/fs/cgroup");

}  // namespace taxon::launch
