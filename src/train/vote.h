#pragma once

#include "comm/collectives.h"
#include "tensor/arena.h"

namespace taxon::train {

/// What all ranks learn from each other once per step, beside the compute: whether anybody asks to stop, and
/// the sums of the loss and the hits of the step before. It starts with the step and is awaited at its end,
/// so its latency is hidden, and since all ranks see the same sum they stop after the same step.
class Vote {
 public:
  struct Ballot {
    bool stop = false;
    double loss_sum = 0;  // of the step before
    std::int64_t correct = 0;
    double exposed_seconds = 0;
  };
  struct Tally {
    bool stop = false;
    double loss_sum = 0, correct = 0, exposed_seconds = 0;
    double samples = 0;  // that these are sums over, where ranks don't keep step; 0: of the step before
  };

  explicit Vote(comm::Communicator& group);
  /// Collective: makes the ballots' memory known to the members.
  task::Task<void> establish();
  task::Task<void> cast(Ballot mine, Tally* result);

 private:
  comm::Communicator& group_;
  tensor::Arena values_;
  const comm::CollectiveRow* row_ = nullptr;
};

}  // namespace taxon::train
