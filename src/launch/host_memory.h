#pragma once

#include <cstdint>
#include <string>

#include "launch/control_groups.h"

namespace taxon::launch {

/// Bytes of memory.
struct HostMemory {
  std::uint64_t total = 0;  // of the machine; 0: not known
  std::uint64_t available =
      0;  // to new work without swapping: of the machine, or less by a control group's limit
};

/// `meminfo` has the format of /proc/meminfo.
HostMemory host_memory(const ControlGroups& groups = {}, const std::string& meminfo = "/proc/meminfo");

}  // namespace taxon::launch
