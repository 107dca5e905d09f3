#include "train/start/process_groups.h"

namespace taxon::train {
namespace {

std::vector<Rank> all_ranks(const comm::Runtime& runtime) {
  std::vector<Rank> ranks;
  for (int r = 0; r < runtime.world_size(); ++r) ranks.emplace_back(r);
  return ranks;
}

}  // namespace

ReplicaGroup::ReplicaGroup(comm::Runtime& runtime, const plan::MeshPlan& mesh, plan::MeshPosition position)
    : group(runtime, "replica", plan::replica_ranks(mesh, runtime.world_size(), position)),
      pipeline(runtime, "pipeline", plan::pipeline_ranks(mesh, runtime.world_size(), position)),
      tensor(runtime, "tensor", plan::tensor_ranks(mesh, runtime.world_size(), position)) {}

ProcessGroups::ProcessGroups(comm::Runtime& runtime, const TrainOptions& options,
                             const exchange::EventLog& log)
    : runtime_(runtime),
      options_(options),
      log_(log),
      failures_(options.follow ? nullptr : options.failures),
      group_(runtime, "data", all_ranks(runtime)),
      agreement_(group_),
      position_(plan::position_of(options.plan.mesh, runtime.world_size(), runtime.rank())) {
  const plan::MeshPlan& mesh = options.plan.mesh;
  if (plan::ranks_of_replica(mesh) > 1) {
    const int world = runtime.world_size();
    data_ =
        std::make_unique<comm::Communicator>(runtime, "replicas", plan::data_ranks(mesh, world, position_));
    data_agreement_ = std::make_unique<Agreement>(*data_);
  }
  if (is_divided(options.plan, options.own))
    replica_ = std::make_unique<ReplicaGroup>(runtime, mesh, position_);
  if (!failures_ || !failures_->has_expendable()) return;
  all_ = std::make_unique<comm::Communicator>(runtime, "all", all_ranks(runtime));
  membership_ = std::make_unique<Membership>(*all_, group_, *failures_);
}

task::Task<void> ProcessGroups::establish() {
  auto establish = group_.establish();
  co_await establish;
  if (all_) {
    co_await all_->establish();
  }
  if (data_) {
    co_await data_->establish();
  }
  if (replica_) {
    for (comm::Communicator* part : {&replica_->group, &replica_->pipeline, &replica_->tensor}) {
      co_await part->establish();
    }
  }
  const int node = co_await find_node(&runtime_, &agreement_, &options_.plan);
  foresee(node);
  co_await levels_->establish();
  if (outer_) {
    co_await outer_->establish();
  }
}

void ProcessGroups::foresee(int node) {
  node_ = node;
  const auto& levels = options_.plan.exchange.levels;
  const exchange::Levels::Setup shape{node_, options_.plan.seed, options_.plan.mesh.servers, options_.own,
                                      log_};
  levels_ =
      std::make_unique<exchange::Levels>(data_ ? *data_ : lasting(), exchange::summing_levels(levels), shape);
  if (auto meeting = exchange::meeting_level(levels); !meeting.empty())
    outer_ = std::make_unique<exchange::Levels>(lasting(), meeting, shape);
}

/// The members' gradients, and their weights if owners spread them; and what replicas hand in where they
/// meet.
task::Task<void> ProcessGroups::share(const State* state) {
  if (data().size() == 1) co_return;
  if (outer_) {
    co_await outer_->share(state->handed_in().region());
  }
  for (std::size_t f = 0; f < state->flights(); ++f) {
    co_await levels_->share(state->gradients(f).region());
  }
  if (!levels_->spreads()) co_return;
  const exchange::Arenas arenas = state->arenas(0);
  const tensor::Arena* spread = state->in_parts() ? arenas.compute : arenas.master;
  co_await levels_->share(spread->region());
}

}  // namespace taxon::train
