#pragma once

#include <string>
#include <vector>

#include "exchange/exchange.h"
#include "train/state/replicas.h"
#include "train/state/shard_transfer.h"

namespace taxon::train {

/// Writes checkpoints and the trained model, by rank 0's hand. Everything outlives it; its calls are
/// collective and need settled exchanges.
class Saver {
 public:
  struct Setup {
    const TrainOptions* options = nullptr;
    const plan::Plan* plan = nullptr;  // resolved
    State* state = nullptr;
    Replicas* replicas = nullptr;
    const model::ModelSpec* whole = nullptr;  // the model's, before it was divided
  };
  Saver(TrainContext world, RankGroups ranks, const Setup& setup)
      : world_(world), ranks_(ranks), setup_(setup) {}

  /// A step whose update is still to come: its sums, once they are there.
  struct ToCome {
    exchange::Exchange* exchange = nullptr;  // null: there is none
    const tensor::Arena* sums = nullptr;
  };
  /// Writes a checkpoint of the run after `steps` and `samples`, unless the plan wants no files. REQUIRES:
  /// answers of meetings have come.
  task::Task<void> save(std::int64_t steps, std::int64_t samples, ToCome to_come);
  /// model.safetensors: the weights as they are, with the model's buffers. Collective; rank 0 writes.
  task::Task<void> export_model();

 private:
  task::Task<std::vector<checkpoint::LogicalTensor>> collect_optimiser(ToCome to_come);
  task::Task<std::vector<checkpoint::LogicalTensor>> collect_weights();
  task::Task<tensor::Arena> gather(const tensor::Arena* part, ShardTransfer::Where where);
  task::Task<std::vector<checkpoint::LogicalTensor>> whole(std::vector<checkpoint::LogicalTensor> part);
  task::Task<void> collect(std::string name, const tensor::Arena* part, ShardTransfer::Where where,
                           std::vector<checkpoint::LogicalTensor>* tensors);

  TrainContext world_;
  RankGroups ranks_;
  const Setup setup_;
};

}  // namespace taxon::train
