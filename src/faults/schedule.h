#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/cluster.h"

namespace taxon::faults {

/// What the schedule of one seed does to a cluster.
struct FaultSchedule {
  plan::ClusterModel cluster;  // with the fault script
  bool cuts_for_good = false;  // a link is cut and never whole again: the run may be stuck
};

/// A fault script that follows from the seed: late deliveries, slow devices and links, cut links, killed
/// ranks, alone or together, at instants of a run that takes `length` seconds undisturbed.
FaultSchedule draw_schedule(std::uint64_t seed, plan::ClusterModel cluster, int ranks, double length);

/// The fault script in words, one line a fault.
std::vector<std::string> describe(const FaultSchedule& schedule);

}  // namespace taxon::faults
