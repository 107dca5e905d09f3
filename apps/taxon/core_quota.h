#pragma once

#include <string>

namespace taxon::app {

/// Cores' worth of time that the control groups of this process allow (containers, cgroup v1 and v2): the
/// least of its own group and all groups around it. 0: no limit, or none that can be read.
/// `membership` has the format of /proc/self/cgroup, `root` is where the hierarchies are mounted.
double core_quota(const std::string& membership = "/proc/self/cgroup",
                  const std::string& root = "/sys/fs/cgroup");

}  // namespace taxon::app
