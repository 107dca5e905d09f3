#include "launch/core_quota.h"

#include <fstream>
#include <optional>

namespace taxon::launch {
namespace {

std::optional<ProcessorQuota> ratio(std::istream& quota, std::istream& period) {
  constexpr double kMicrosecond = 1e-6;
  double allowed = 0, of = 0;
  // "max" is no number, and -1 is version 1's word for it.
  if (quota >> allowed && period >> of && allowed > 0 && of > 0)
    return ProcessorQuota{allowed / of, of * kMicrosecond};
  return {};
}

std::optional<ProcessorQuota> quota_of(const std::string& folder) {
  std::ifstream version2(folder + "/cpu.max");
  if (auto found = ratio(version2, version2)) return found;
  std::ifstream quota(folder + "/cpu.cfs_quota_us"), period(folder + "/cpu.cfs_period_us");
  return ratio(quota, period);
}

}  // namespace

ProcessorQuota core_quota(const ControlGroups& groups) {
  ProcessorQuota least;
  for (const std::string& folder : groups.folders("cpu"))
    if (auto quota = quota_of(folder); quota && (least.cores <= 0 || quota->cores < least.cores))
      least = *quota;
  return least;
}

std::uint64_t quota_pauses(const ControlGroups& groups) {
  std::uint64_t pauses = 0;
  for (const std::string& folder : groups.folders("cpu")) {
    std::ifstream file(folder + "/cpu.stat");
    std::string key;
    for (std::uint64_t value = 0; file >> key >> value;)
      if (key == "nr_throttled") pauses += value;
  }
  return pauses;
}

}  // namespace taxon::launch
