#pragma once

#include "sim/world.h"
#include "support/clusters.h"
#include "support/ranks.h"

namespace taxon::test {

inline plan::ClusterModel delayed(plan::ClusterModel cluster, double bound = 300e-6) {
  cluster.faults.push_back({.kind = plan::FaultKind::Delay, .bound = bound});
  return cluster;
}

/// Runs `body` as `n` ranks of a virtual world. Throws the first failure; a hang is one.
inline void run_virtual(const plan::ClusterModel& cluster, int n, const RankBody& body,
                        sim::WorldOptions options = {}) {
  sim::World world(cluster, n, options);
  sim::Report report = world.run([&](comm::Runtime& runtime) { return body(runtime.transport); });
  if (report.failure) std::rethrow_exception(report.failure);
}

}  // namespace taxon::test
