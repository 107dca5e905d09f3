#pragma once

#include <span>
#include <string>
#include <vector>

namespace taxon::parallel {

/// A consecutive part of a model that is not cut: seconds and bytes of one micro-batch.
struct SegmentCost {
  std::string name;
  double compute = 0;           // of both passes
  double weight_bytes = 0;      // of one version
  double state_bytes = 0;       // gradients and the optimiser's state
  double activation_bytes = 0;  // kept from the forward pass to the backward pass
  double output_bytes = 0;      // what the next segment gets
};

struct CutOptions {
  int stages = 1;
  double bandwidth = 0;  // bytes per second of each direction between neighbours; 0: transfers take no time
  double latency = 0;    // seconds of a message
  double memory = 0;     // bytes of a worker; 0: unlimited
  /// Micro-batches of which a stage keeps activations at once, [stage]; empty: 1 each.
  std::vector<int> held = {};
  std::vector<int> versions = {};  // of its weights, likewise
  /// Whether a stage's transfers go on beside its passes or between them.
  enum class Transfers { Beside, Between } transfers = Transfers::Beside;
};

struct StageUse {
  int first = 0, last = 0;  // segments, both included
  double compute = 0;       // seconds of a micro-batch
  double transfer = 0;      // seconds in which its link sends: activations on, gradients back
  double bytes = 0;         // of memory
  double seconds = 0;       // between one micro-batch and the next, if nobody else is slower
};

/// The cut whose slowest stage takes least: by dynamic programming over all cuts, so none is better
/// (PipeDream's planner: Narayanan et al., SOSP 2019, without replicated stages). Of equally good ones that
/// with the latest cuts. Throws Error{Usage} where there are fewer segments than stages, or no cut fits the
/// memory, with the numbers. REQUIRES: costs are not negative.
std::vector<StageUse> cut_stages(std::span<const SegmentCost> segments, const CutOptions& options);

/// What the stage of these segments would take as number `stage`.
StageUse stage_use(std::span<const SegmentCost> segments, const CutOptions& options, int stage, int first,
                   int last);

}  // namespace taxon::parallel
