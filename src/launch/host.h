#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace taxon::launch {

/// Names this machine as far as shared memory reaches: the boot and the IPC and PID namespaces. Equal on
/// ranks that can share memory.
std::string host_id();
/// Cores that the calling thread may run on, ascending.
std::vector<int> allowed_cores();
/// How many they are.
int cores_of_affinity();
/// Cores' worth of time that this process may use: those, or less by its container's quota. Above 0.
double usable_cores();
/// Bytes of the largest cache, which cores may share; 0: not known.
std::uint64_t largest_cache();
/// Largest resident set of this process so far.
std::uint64_t peak_rss_bytes();
/// The processor's model as the kernel names it, or that it is not known.
std::string processor_name();
/// Seconds since 1970, for TensorBoard.
double wall_clock();

}  // namespace taxon::launch
