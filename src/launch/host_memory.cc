#include "launch/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>

namespace taxon::launch {
namespace {

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (!(file >> number)) return {};  // "max" is none
  return number;
}

/// What the file memory.stat of a group says of a key; 0 if nothing.
std::uint64_t statistic(const std::string& folder, const std::string& wanted) {
  std::ifstream file(folder + "/memory.stat");
  std::string key;
  for (std::uint64_t value = 0; file >> key >> value;)
    if (key == wanted) return value;
  return 0;
}

/// What a group may still take; files that the kernel has read are given up for it.
std::optional<std::uint64_t> left_in(const std::string& folder) {
  auto limit = number_in(folder + "/memory.max"), used = number_in(folder + "/memory.current");
  std::uint64_t cached = statistic(folder, "inactive_file");
  if (!limit || !used) {  // version 1, whose limit is a huge number where there is none
    limit = number_in(folder + "/memory.limit_in_bytes");
    used = number_in(folder + "/memory.usage_in_bytes");
    cached = statistic(folder, "total_inactive_file");
  }
  if (!limit || !used) return {};
  const std::uint64_t kept = *used - std::min(*used, cached);
  return *limit - std::min(*limit, kept);
}

}  // namespace

HostMemory host_memory(const ControlGroups& groups, const std::string& meminfo) {
  HostMemory memory;
  std::ifstream file(meminfo);
  std::string name, unit;
  for (std::uint64_t kibibytes = 0; file >> name >> kibibytes; std::getline(file, unit)) {
    if (name == "MemTotal:") memory.total = kibibytes << 10;
    if (name == "MemAvailable:") memory.available = kibibytes << 10;
  }
  if (memory.total == 0) return memory;
  for (const std::string& folder : groups.folders("memory"))
    if (const auto left = left_in(folder)) memory.available = std::min(memory.available, *left);
  return memory;
}

}  // namespace taxon::launch
