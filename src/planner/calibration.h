#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "comm/runtime.h"
#include "planner/cluster_fit.h"

namespace taxon::planner {

struct CalibrationOptions {
  int threads = 1;       // that compute
  int cores = 1;         // that the host's ranks may use
  double seconds = 0.4;  // of each measurement of compute, and of each stream
  std::function<void(const std::string&)> say;
  const std::atomic<bool>* stop = nullptr;  // asked between measurements: Error{Interrupted}
};

/// What a job measured of itself.
struct Calibration {
  std::vector<RankFigures> ranks;
  std::vector<LinkFigures> links;
  plan::ClusterModel cluster;
};

/// Collective over all ranks of the runtime: ranks compute one after the other where they share a machine,
/// then all at once; then pairs of hosts, and pairs of ranks inside hosts, one after the other. Every rank
/// gets the same result. What the pointers name outlives the task.
task::Task<Calibration> calibrate(comm::Runtime* runtime, const CalibrationOptions* options);

/// The cluster file, with where it comes from.
std::string cluster_text(const Calibration& calibration);
/// For programs: an object with `cluster_file`, `ranks` and `links`, whose keys are the names in RankFigures,
/// ComputeFigures and LinkFigures, and `trusted`.
std::string to_json(const Calibration& calibration, const std::string& file);
/// For people.
std::string describe(const Calibration& calibration);

}  // namespace taxon::planner
