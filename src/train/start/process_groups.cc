#include "train/start/process_groups.h"

namespace taxon::train {
namespace {

std::vector<Rank> all_ranks(const comm::Runtime& runtime) {
  std::vector<Rank> ranks;
  for (int r = 0; r < runtime.world_size(); ++r) ranks.emplace_back(r);
  return ranks;
}

}  // namespace

ProcessGroups::ProcessGroups(comm::Runtime& runtime, const TrainOptions& options,
                             const exchange::EventLog& log)
    : runtime_(runtime),
      options_(options),
      log_(log),
      failures_(options.follow ? nullptr : options.failures),
      group_(runtime, "data", all_ranks(runtime)),
      agreement_(group_) {
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
  node_ = co_await find_node(&runtime_, &agreement_, &options_.plan);
  const auto& levels = options_.plan.exchange.levels;
  const exchange::Levels::Setup shape{node_, options_.plan.seed, options_.plan.mesh.servers, options_.own,
                                      log_};
  levels_ = std::make_unique<exchange::Levels>(lasting(), exchange::summing_levels(levels), shape);
  co_await levels_->establish();
  if (auto meeting = exchange::meeting_level(levels); !meeting.empty()) {
    outer_ = std::make_unique<exchange::Levels>(lasting(), meeting, shape);
    co_await outer_->establish();
  }
}

/// The members' gradients, and their weights if owners spread them; and what replicas hand in where they
/// meet.
task::Task<void> ProcessGroups::share(const State* state) {
  if (group_.size() == 1) co_return;
  if (outer_) {
    co_await outer_->share(state->handed_in().region());
  }
  for (std::size_t f = 0; f < state->flights(); ++f) {
    co_await levels_->share(state->gradients(f).region());
  }
  if (!levels_->spreads()) co_return;
  co_await levels_->share(state->master().region());
}

}  // namespace taxon::train
