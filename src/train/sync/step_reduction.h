#pragma once

#include <array>

#include "comm/collectives.h"
#include "model/metric.h"
#include "tensor/arena.h"

namespace taxon::train {

/// Whose step gave something that is not finite: one rank's, or a sum over ranks.
struct Divergence {
  double ranks = 0;   // 0: nobody's
  double rank = 0;    // if it was one's
  double losses = 0;  // ranks whose gradients are finite and whose loss is not
  double bucket = 0;  // if it was the gradient of one
  bool any() const { return ranks > 0; }
};

/// What all ranks learn from each other once per step, beside the compute: whether anybody asks to stop, and
/// the sums of the loss and of what was counted in the step before. It starts with the step and is awaited at
/// its end, so its latency is hidden, and since all ranks see the same sum they stop after the same step.
/// Where a step may be skipped it starts after the backward pass, and also says whose gradients of this step
/// are not finite.
class StepReduction {
 public:
  struct LocalStatus {
    bool stop = false;
    double loss_sum = 0;  // of the step before
    std::array<double, model::kMostCounts> counts{};
    double exposed_seconds = 0;
    const Divergence* divergence = nullptr;  // of this step, read when it is sent; null: none
  };
  struct GlobalStatus {
    bool stop = false;
    double loss_sum = 0, exposed_seconds = 0;
    std::array<double, model::kMostCounts> counts{};
    double samples = 0;  // that these are sums over, where ranks don't keep step; 0: of the step before
    Divergence divergence = {};  // of the ranks that keep step with this one
  };

  /// What all ranks learn: divergences only where a plan skips steps, since they are twice as much to send.
  enum class Carries { Totals, Divergences };
  /// `counts`: those that the task has.
  StepReduction(comm::Communicator& group, Carries carries, std::size_t counts);
  /// Collective: makes the memory known to the members.
  task::Task<void> establish();
  task::Task<void> cast(LocalStatus mine, GlobalStatus* result);

 private:
  comm::Communicator& group_;
  const Carries carries_;
  const std::size_t counts_;
  tensor::Arena values_;
  const comm::CollectiveRow* row_ = nullptr;
};

}  // namespace taxon::train
