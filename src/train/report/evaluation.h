#pragma once

#include "train/staged_pass.h"

namespace taxon::train {

/// Tests the model as it is bound, each replica a part of the test set. Everything outlives it; its calls are
/// collective.
class Evaluator {
 public:
  /// `staged`: of a model that ranks hold parts of; null otherwise.
  Evaluator(TrainContext world, const plan::Plan& plan, RankGroups ranks, StagedPass* staged)
      : world_(world), plan_(plan), ranks_(ranks), staged_(staged) {}

  /// Loss and scores with the mean of the ranks' batch-norm statistics, which are each rank's own again
  /// afterwards. `evaluation` says where training stands and what this rank sent.
  task::Task<Evaluation> evaluate(Evaluation evaluation);
  /// The model's buffers := their mean over the replicas.
  task::Task<void> average_buffers();

 private:
  Range share_of(int replica) const;
  /// The samples of each batch of the share.
  std::vector<std::vector<std::int64_t>> batches_of(Range share) const;
  model::StepOutput evaluate_share(Range share);
  task::Task<model::StepOutput> pass(Range share);

  TrainContext world_;
  const plan::Plan& plan_;
  RankGroups ranks_;
  StagedPass* const staged_;
};

}  // namespace taxon::train
