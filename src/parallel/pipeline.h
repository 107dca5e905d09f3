#pragma once

#include <vector>

#include "parallel/network.h"
#include "parallel/stages.h"
#include "program/timeline.h"

namespace taxon::parallel {

struct PipelineInput {
  std::int64_t batch = 1;  // samples of the program's micro-batches together; they divide it
  double flops = 0;        // operations per second of a worker
  double bandwidth = 0;    // as CutOptions
  double latency = 0;
  double memory = 0;          // bytes of a worker; 0: unlimited
  double element_bytes = 4;   // of activations, weights and gradients
  double state_elements = 2;  // for each parameter, beside its weights: gradient and momentum
};

/// What a network's layers cost one micro-batch.
std::vector<SegmentCost> segments_of(const Network& network, const PipelineInput& input, int micros);

struct Pipeline {
  std::vector<StageUse> stages;
  std::vector<program::StageCost> costs;
  program::Timeline timeline;
};

/// Cuts the network into the program's stages, so that the slowest takes least, and evaluates the program
/// with what they cost. A rank with several stages has memory for all of them; the cut gives each an equal
/// share. Throws Error{Usage} for a batch that the micro-batches do not divide, fewer layers than stages, and
/// memory that is not enough.
Pipeline plan_pipeline(const Network& network, const program::Program& program, const PipelineInput& input);

}  // namespace taxon::parallel
