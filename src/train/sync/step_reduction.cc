#include "train/sync/step_reduction.h"

#include "exchange/levels/algorithm_selection.h"
#include "train/units.h"

namespace taxon::train {
namespace {

enum Value {
  Stop,
  LossSum,
  Correct,
  Exposed,
  TotalCount,
  Ranks = TotalCount,
  TheRank,
  Losses,
  TheBucket,
  ValueCount
};

}  // namespace

StepReduction::StepReduction(comm::Communicator& group, Carries carries)
    : group_(group),
      values_(group.runtime().transport, DType::Float64,
              carries == Carries::Divergences ? std::size_t{ValueCount} : std::size_t{TotalCount}) {}

task::Task<void> StepReduction::establish() {
  if (group_.size() == 1) co_return;
  co_await group_.share(values_.region());
  bool mapped = group_.peers(values_.bytes()).mapped();
  row_ =
      &exchange::choose(net::Operation::AllReduce, "auto", {group_.size(), values_.bytes().size(), mapped});
}

task::Task<void> StepReduction::cast(LocalStatus mine, GlobalStatus* result) {
  auto values = values_.values<double>({0, values_.size()});
  const bool all = values.size() == ValueCount;
  const Divergence divergence = mine.divergence ? *mine.divergence : Divergence();
  values[Stop] = mine.stop ? 1 : 0;
  values[LossSum] = mine.loss_sum;
  values[Correct] = static_cast<double>(mine.correct);
  values[Exposed] = mine.exposed_seconds;
  if (all) {
    values[Ranks] = divergence.ranks;
    values[TheRank] = divergence.rank;
    values[Losses] = divergence.losses;
    values[TheBucket] = divergence.bucket;
  }
  if (group_.size() > 1) {
    comm::Call call{values_.bytes(), DType::Float64, kVoteUnit};
    co_await row_->run(group_, call);
  }
  *result = {.stop = values[Stop] > 0,
             .loss_sum = values[LossSum],
             .correct = values[Correct],
             .exposed_seconds = values[Exposed]};
  if (all) result->divergence = {values[Ranks], values[TheRank], values[Losses], values[TheBucket]};
}

}  // namespace taxon::train
