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
    auto establish_all = all_->establish();
    co_await establish_all;
  }
  auto finding = find_node(&runtime_, &agreement_, &options_.plan);
  node_ = co_await finding;
  const auto& levels = options_.plan.exchange.levels;
  const exchange::Levels::Setup shape{node_, options_.plan.seed, options_.plan.mesh.servers, options_.own,
                                      log_};
  levels_ = std::make_unique<exchange::Levels>(lasting(), exchange::summing_levels(levels), shape);
  auto establish_levels = levels_->establish();
  co_await establish_levels;
  if (auto meeting = exchange::meeting_level(levels); !meeting.empty()) {
    outer_ = std::make_unique<exchange::Levels>(lasting(), meeting, shape);
    auto establish_outer = outer_->establish();
    co_await establish_outer;
  }
}

/// The members' gradients, and their weights if owners spread them; and what replicas hand in where they
/// meet.
task::Task<void> ProcessGroups::share(const State* state) {
  if (group_.size() == 1) co_return;
  if (outer_) {
    auto share = outer_->share(state->handed_in().region());
    co_await share;
  }
  for (std::size_t f = 0; f < state->flights(); ++f) {
    auto share = levels_->share(state->gradients(f).region());
    co_await share;
  }
  if (!levels_->spreads()) co_return;
  auto share = levels_->share(state->master().region());
  co_await share;
}

}  // namespace taxon::train
