#include "train/vote.h"

#include "exchange/choose.h"
#include "train/units.h"

namespace taxon::train {

Vote::Vote(comm::Communicator& group)
    : group_(group), values_(group.runtime().transport, DType::Float64, 4) {}

task::Task<void> Vote::establish() {
  if (group_.size() == 1) co_return;
  auto share = group_.share(values_.region());
  co_await share;
  bool mapped = group_.peers(values_.bytes()).mapped();
  row_ =
      &exchange::choose(net::Operation::AllReduce, "auto", {group_.size(), values_.bytes().size(), mapped});
}

task::Task<void> Vote::cast(Ballot mine, Tally* result) {
  auto values = values_.values<double>({0, 4});
  values[0] = mine.stop ? 1 : 0;
  values[1] = mine.loss_sum;
  values[2] = static_cast<double>(mine.correct);
  values[3] = mine.exposed_seconds;
  if (group_.size() > 1) {
    comm::Call call{values_.bytes(), DType::Float64, kVoteUnit};
    auto sum = row_->run(group_, call);
    co_await sum;
  }
  *result = {values[0] > 0, values[1], values[2], values[3]};
}

}  // namespace taxon::train
