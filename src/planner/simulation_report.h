#pragma once

#include <string>

#include "planner/simulation.h"

namespace taxon::planner {

/// Where a step's time goes, in seconds: along the critical path of the median step, then rank 0's own view.
struct Breakdown {
  double compute = 0;  // forward, backward and updates on the compute stream
  double encode = 0;   // kernels of the exchange stream: sums, encoding, casts, updates beside the compute
  double wire = 0;     // bytes on links
  double latency = 0;  // overhead and latency of messages
  double wait = 0;     // anything else
  double exposed = 0;  // communication that compute did not hide: mean over ranks and counted steps
  double data_wait = 0;
};
Breakdown breakdown(const SimulationResult& result);

/// For people: the step, its breakdown, the links and the critical path in words.
std::string to_text(const SimulationInput& input, const SimulationResult& result);
/// For programs; docs/simulation.md lists the keys.
std::string to_json(const SimulationInput& input, const SimulationResult& result);
/// In the format of a real run's trace.json. REQUIRES: spans were kept.
std::string trace_of(const SimulationResult& result);

}  // namespace taxon::planner
