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

bool names_cpu(std::string controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

ProcessorQuota core_quota(const std::string& membership, const std::string& root) {
  ProcessorQuota least;
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {  // number:controllers:path
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (!controllers.empty() && !names_cpu(controllers)) continue;
    // Version 2 has one hierarchy at the root; version 1 one folder for each set of controllers.
    std::string base = controllers.empty() ? root : root + "/" + controllers;
    for (;; path.resize(path.find_last_of('/'))) {
      // A container may see its own group as the root of the hierarchy, whatever the path says.
      if (auto quota = quota_of(base + path); quota && (least.cores <= 0 || quota->cores < least.cores))
        least = *quota;
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace taxon::launch
