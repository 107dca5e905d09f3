#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/cluster.h"
#include "planner/compute_probe.h"
#include "planner/link_probe.h"

namespace taxon::planner {

/// What one rank knows of its place and has measured there.
struct RankFigures {
  std::string host;      // equal on ranks that share memory
  std::string machine;   // equal on ranks that share cores
  double cores = 0;      // that it may run on
  double quota = 0;      // cores' worth of time that its control group allows; 0: all
  double period = 0;     // of the quota, seconds
  int threads = 1;       // that compute
  double cache = 0;      // bytes that the machine's largest cache holds; 0: not known
  ComputeFigures alone;  // while no other rank of its machine computed
  double queued_share =
      -1;               // of the threads' time meanwhile, waiting for cores that others had; < 0: not known
  double together = 0;  // `alone.flops` while all ranks did
  double granted = 0;   // cores' worth of time that its threads got meanwhile; 0: not known
  /// Seconds of processor time for a byte sent and one received while all ranks do both; 0: not measured.
  double crowd = 0;
};

/// The cluster that a simulation of this job needs; equal hosts become one group. `links`: pairs of ranks of
/// different hosts, and pairs inside hosts. Throws Error{Usage} if the ranks of a host don't follow each
/// other, which a cluster file can't say.
plan::ClusterModel fit_cluster(std::span<const RankFigures> ranks, std::span<const LinkFigures> links);

}  // namespace taxon::planner
