#include "train/sync/step_reduction.h"

#include <algorithm>

#include "exchange/levels/algorithm_selection.h"
#include "train/units.h"

namespace taxon::train {
namespace {

/// Of all values that travel; then the task's counts; then, where they are carried, divergences.
enum Value { AnyStop, LossTotal, Exposed, TotalCount };
enum DivergenceValue { Ranks, TheRank, Losses, TheBucket, DivergenceCount };

std::size_t size_of(StepReduction::Carries carries, std::size_t counts) {
  return TotalCount + counts + (carries == StepReduction::Carries::Divergences ? DivergenceCount : 0);
}

}  // namespace

StepReduction::StepReduction(comm::Communicator& group, Carries carries, std::size_t counts)
    : group_(group),
      carries_(carries),
      counts_(counts),
      values_(group.runtime().transport, DType::Float64, size_of(carries, counts)) {}

task::Task<void> StepReduction::establish() {
  if (group_.size() == 1) co_return;
  co_await group_.share(values_.region());
  bool mapped = group_.peers(values_.bytes()).mapped();
  row_ =
      &exchange::choose(net::Operation::AllReduce, "auto", {group_.size(), values_.bytes().size(), mapped});
}

task::Task<void> StepReduction::cast(LocalStatus mine, GlobalStatus* result) {
  auto values = values_.values<double>({0, values_.size()});
  const auto counts = values.subspan(TotalCount, counts_);
  const auto diverged = values.subspan(TotalCount + counts_);
  const Divergence divergence = mine.divergence ? *mine.divergence : Divergence();
  values[AnyStop] = mine.stop ? 1 : 0;
  values[LossTotal] = mine.loss_sum;
  values[Exposed] = mine.exposed_seconds;
  std::copy_n(mine.counts.begin(), counts_, counts.begin());
  if (carries_ == Carries::Divergences) {
    diverged[Ranks] = divergence.ranks;
    diverged[TheRank] = divergence.rank;
    diverged[Losses] = divergence.losses;
    diverged[TheBucket] = divergence.bucket;
  }
  if (group_.size() > 1) {
    comm::Call call{values_.bytes(), DType::Float64, kVoteUnit};
    co_await row_->run(group_, call);
  }
  *result = {.stop = values[AnyStop] > 0, .loss_sum = values[LossTotal], .exposed_seconds = values[Exposed]};
  std::copy(counts.begin(), counts.end(), result->counts.begin());
  if (carries_ == Carries::Divergences)
    result->divergence = {diverged[Ranks], diverged[TheRank], diverged[Losses], diverged[TheBucket]};
}

}  // namespace taxon::train
