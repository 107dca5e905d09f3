#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace taxon::program {

/// What a stage costs: seconds of one micro-batch, and bytes.
struct StageCost {
  double forward = 1;
  double backward_input = 1;  // a backward pass takes both
  double backward_weight = 1;
  double transfer = 0;  // its output to the next stage, and as long for the gradient back
  double exchange = 0;  // of its gradients over the data axis
  double update = 0;
  double activation_bytes = 0;  // kept of a micro-batch from its forward pass to its gradient of weights
  double weight_bytes = 0;      // of one version
  double state_bytes = 0;       // gradients and the optimiser's state
};

/// An action on the rank's processors, or its exchange, as it was carried out.
struct Span {
  int rank = 0;
  Action action;
  double begin = 0, end = 0;
};

struct RankUse {
  double busy = 0;        // seconds of passes and updates
  double idle = 0;        // the rest, to the end of the last rank
  double peak_bytes = 0;  // of activations, versions of weights and state
};

struct Timeline {
  double seconds = 0;
  std::vector<Span> spans;  // by rank, in its order; transfers are not among them
  std::vector<RankUse> ranks;
  /// Time without work, as a share of all ranks' time.
  double bubble() const;
};

/// When everything happens, if every pass takes as long as its stage costs. A message takes its turn on the
/// way from one rank to another, activations and gradients each on their own, and holds neither up; a rank
/// waits for what it receives. Exchanges of a rank run one after the other beside its passes. REQUIRES:
/// costs.size() == program.stages; program_problems() found nothing.
Timeline evaluate(const Program& program, std::span<const StageCost> costs);

/// A line for each rank, a column for each unit of time, for costs that are whole numbers: F and B are passes
/// (I and W gradients of inputs and weights), with their micro-batch; a rank's second stage is marked by ',
/// its third by ", and so on with numbers: F3:2. A dot is idle, a dash goes on.
std::string draw(const Program& program, const Timeline& timeline);
/// With unit costs, as schedules are drawn.
std::string draw(const Program& program);

}  // namespace taxon::program
