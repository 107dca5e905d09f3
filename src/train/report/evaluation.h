#pragma once

#include "train/sync/agreement.h"
#include "train/train.h"

namespace taxon::train {

/// Tests the model as it is bound, each rank a part of the test set. Everything outlives it; its calls are
/// collective.
class Evaluator {
 public:
  Evaluator(TrainContext world, const plan::Plan& plan, comm::Communicator& group, Agreement& agreement)
      : world_(world), plan_(plan), group_(group), agreement_(agreement) {}

  /// Loss and scores with the mean of the ranks' batch-norm statistics, which are each rank's own again
  /// afterwards. `evaluation` says where training stands and what this rank sent.
  task::Task<Evaluation> evaluate(Evaluation evaluation);
  /// The model's buffers := their mean over the ranks.
  task::Task<void> average_buffers();

 private:
  model::StepOutput evaluate_share(Range share);
  std::size_t buffer_count() const;

  TrainContext world_;
  const plan::Plan& plan_;
  comm::Communicator& group_;
  Agreement& agreement_;
};

}  // namespace taxon::train
