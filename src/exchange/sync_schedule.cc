#include "exchange/sync_schedule.h"

#include <algorithm>

namespace taxon::exchange {

bool SyncSchedule::meets(int fragment, std::int64_t step) const {
  if (step <= 0) return false;
  if (step <= warmup_) return true;
  return (step - fragment * (period_ / fragments_)) % period_ == 0;
}

std::int64_t SyncSchedule::meetings_before(int fragment, std::int64_t step) const {
  const std::int64_t done = step - 1, first = fragment * (period_ / fragments_);
  if (done <= warmup_) return std::max<std::int64_t>(0, done);
  // Of its meetings as the period has them, that at `first` - period included.
  auto up_to = [&](std::int64_t last) { return (last - first + period_) / period_; };
  return warmup_ + up_to(done) - up_to(warmup_);
}

std::optional<std::int64_t> SyncSchedule::underway(int fragment, std::int64_t step) const {
  for (std::int64_t begun = step; begun > std::max<std::int64_t>(0, step - period_); --begun)
    if (meets(fragment, begun) && adopted_after(begun) > step) return begun;
  return {};
}

}  // namespace taxon::exchange
