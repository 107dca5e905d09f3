#pragma once

#include "comm/runtime.h"

namespace taxon::planner {

/// How fast one rank computes; bytes are those that a kernel reads and writes.
struct ComputeFigures {
  double flops = 0;             // of a float32 matrix product with the compute threads
  double sum_bandwidth = 0;     // of a collective's sums, bytes per second
  double update_bandwidth = 0;  // of the optimiser's updates
  double copy_bandwidth = 0;    // of copies
  double cache_bandwidth = 0;   // of updates whose memory caches hold
  double spread = 0;  // of these bandwidths: by how much attempts fell short of the best, as a share
  double launch = 0;  // seconds that an empty kernel of the compute stream takes
};

/// Measures this process for about five times `seconds`, all but `launch`. Where a quota stops the process
/// meanwhile, that counts: `seconds` should be many of its periods.
ComputeFigures probe_compute(double seconds, int threads);

/// The median of many. `runtime` outlives the task.
task::Task<double> probe_launch(comm::Runtime* runtime);

/// Only the matrix product, for about `seconds`.
double probe_matrix(double seconds, int threads);

}  // namespace taxon::planner
