#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "exchange/levels/levels.h"
#include "plan/mesh.h"
#include "train/state/state.h"
#include "train/sync/agreement.h"
#include "train/train.h"

namespace taxon::train {

/// A step whose sums were there and whose update was still to come when the checkpoint was written
/// (exchange.delay).
struct Delayed {
  optim::StepClock clock;
  static constexpr const char* kSums = "delayed";
  static constexpr const char* kClock = "delayed clock";
  checkpoint::LogicalTensor pack() const;
  /// None if the checkpoint has none. Throws Error{Checkpoint} for one that is no clock.
  static std::optional<Delayed> find(const checkpoint::Checkpoint& checkpoint);
};

/// Where training begins: the position, and the plan with its buckets. The same on every rank.
struct RunStart {
  plan::Plan plan;
  std::int64_t steps = 0, samples = 0;
  // Of the first rank only, of those with the same part of the model: all, in the order of the model's spec.
  std::vector<double> parameters;
  std::vector<checkpoint::LogicalTensor> rank_tensors;  // of this rank alone; empty: fresh
  bool same_world = false;                              // they are what this rank had, and all of it
  bool same_buckets = false;                            // it was cut into those of the checkpoint
  std::optional<checkpoint::Checkpoint> restored;       // likewise, with the optimiser's state
  bool resumed = false;
  bool has_optimiser = false;  // the checkpoint has one state for all ranks
  bool were_apart = false;     // the checkpoint's replicas, each of which has its own
  std::optional<Delayed> delayed;
};

/// Whether passes are taken piece by piece (StagedPass): ranks hold parts of the model, or keep parts of its
/// parameters between uses. `own`: rows beside those of the tables.
bool is_divided(const plan::Plan& plan, const exchange::Extensions& own);

/// Ranks that divide a model among them, where it is divided; one that has all of it is alone.
struct ReplicaGroup {
  ReplicaGroup(comm::Runtime& runtime, const plan::MeshPlan& mesh, plan::MeshPosition position);
  comm::Communicator group;  // those that make one whole model with this rank
  Agreement agreement{group};
  comm::Communicator pipeline, tensor;  // the ranks of other stages, and of other parts of this stage
};

/// Who takes part: all ranks, and how they meet on the levels.
struct RankGroups {
  comm::Communicator& group;    // those that are there, see Membership
  comm::Communicator& lasting;  // all that ever were
  Agreement& agreement;
  plan::MeshPosition position;
  comm::Communicator& data;  // that hold the same part of the model: all of them, unless it is divided
  Agreement& data_agreement;
  ReplicaGroup* replica = nullptr;    // null: each worker has a whole model
  exchange::Levels& levels;           // that sum gradients, over `data`
  exchange::Levels* outer = nullptr;  // where replicas meet, if they do
  int node = 0;
};

/// Elements of all buffers.
std::size_t buffer_count(const model::ModelSpec& spec);

/// What of the model differs per rank: its buffers and its random state (of other ranks: no random state,
/// and the model keeps its own). Back: does nothing if `tensors` has
/// none; throws Error{Checkpoint} for one that the model can't take over.
checkpoint::LogicalTensor pack_rank_state(const model::Model& model);
void restore_rank_state(model::Model& model, const std::vector<checkpoint::LogicalTensor>& tensors);
/// Throws Error{Checkpoint} that begins with `path` unless there is one, of as much as this model has. For
/// bodies of kernels.
void require_rank_state(const model::Model& model, const std::vector<checkpoint::LogicalTensor>& tensors,
                        const std::string& path);

/// Decides on rank 0 how to begin (from the newest checkpoint or fresh), in which order gradients complete,
/// how they are cut into buckets and which collectives serve each, and tells everybody. Of a model that is
/// divided the first rank of each part decides the latter. `whole`: the spec of before. Collective.
task::Task<RunStart> begin(TrainContext world, const TrainOptions* options, RankGroups ranks,
                           const model::ModelSpec* whole);

/// Fills `state` and the model from the first rank's `run_start` and checkpoint, and binds the model.
/// Collective.
task::Task<void> restore(TrainContext world, RankGroups ranks, RunStart* run_start, State* state);

/// Ranks per node, for a plan whose levels ask; 0 otherwise. What the plan says, or how many consecutive
/// ranks share memory. Throws Error{Usage} if that is not equal in all nodes. Collective.
task::Task<int> find_node(comm::Runtime* runtime, Agreement* agreement, const plan::Plan* plan);

// Bodies below don't run where payloads are phantoms; what they would have told must have its value before.

/// Runs `body` on the compute stream: models are called from one thread only.
task::Task<void> on_compute(comm::Runtime* runtime, std::string name, UniqueFunction<void()> body,
                            tensor::Cost cost = {});
/// Runs `body` on the data stream: files block.
task::Task<void> on_data(comm::Runtime* runtime, std::string name, UniqueFunction<void()> body);

}  // namespace taxon::train
