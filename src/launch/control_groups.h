#pragma once

#include <string>
#include <vector>

namespace taxon::launch {

/// Where the kernel tells of the control groups (containers, cgroup v1 and v2) that this process is in.
struct ControlGroups {
  std::string membership = "/proc/self/cgroup";  // or a file of its format
  std::string root = "/sys/fs/cgroup";           // where the hierarchies are mounted

  /// Folders of the group of a controller ("cpu", "memory") and of all groups around it, innermost first.
  /// Some may not exist.
  std::vector<std::string> folders(const std::string& controller) const;
};

}  // namespace taxon::launch
