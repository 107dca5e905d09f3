#include "launch/host.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "launch/core_quota.h"

namespace taxon::launch {
namespace {

std::uint64_t inode(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::string host_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return fmt::format("{}/{}/{}", boot, inode("/proc/self/ns/ipc"), inode("/proc/self/ns/pid"));
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(static_cast<unsigned>(core), &set)) cores.push_back(core);
  return cores;
}

int cores_of_affinity() { return std::max(1, static_cast<int>(allowed_cores().size())); }

double usable_cores() {
  double cores = cores_of_affinity(), quota = core_quota().cores;
  return quota > 0 ? std::min(cores, quota) : cores;
}

std::uint64_t largest_cache() {
  std::uint64_t largest = 0;
  for (int level = 0;; ++level) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level));
    std::uint64_t kibibytes = 0;
    if (!(file >> kibibytes)) return largest;
    largest = std::max(largest, kibibytes << 10);
  }
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "an unknown processor";
}

}  // namespace taxon::launch
