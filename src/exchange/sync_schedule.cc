#include "exchange/sync_schedule.h"

#include <algorithm>

namespace taxon::exchange {

bool SyncSchedule::meets(int fragment, std::int64_t step) const {
  if (step <= 0) return false;
  if (step <= warmup_) return true;
  return (step - fragment * (period_ / fragments_)) % period_ == 0;
}

std::optional<std::int64_t> SyncSchedule::underway(int fragment, std::int64_t step) const {
  for (std::int64_t begun = step; begun > std::max<std::int64_t>(0, step - period_); --begun)
    if (meets(fragment, begun) && adopted_after(begun) > step) return begun;
  return {};
}

}  // namespace taxon::exchange
