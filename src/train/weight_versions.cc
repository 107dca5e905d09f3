#include "train/weight_versions.h"

#include <algorithm>

#include "base/check.h"

namespace taxon::train {

WeightVersions::WeightVersions(const std::vector<program::Action>& actions, std::size_t copies)
    : actions_(actions), held_(copies, -1) {
  held_.front() = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!program::computes(actions[i].kind)) continue;
    const auto version = static_cast<std::size_t>(actions[i].version);
    last_use_.resize(std::max(last_use_.size(), version + 1), 0);
    last_use_[version] = i;
  }
}

std::size_t WeightVersions::copy_of(int version) const {
  const auto found = std::find(held_.begin(), held_.end(), version);
  TAXON_CHECK(found != held_.end(), "version ", version, " of the weights is not there");
  return static_cast<std::size_t>(found - held_.begin());
}

std::size_t WeightVersions::make(std::size_t action) {
  const auto is_free = [&](int version) {
    const auto index = static_cast<std::size_t>(version);
    return version < 0 || index >= last_use_.size() || last_use_[index] < action;
  };
  const auto free = std::find_if(held_.begin(), held_.end(), is_free);
  TAXON_CHECK(free != held_.end(), "all ", held_.size(), " versions of the weights are in use");
  *free = newest_ = actions_[action].version;
  return static_cast<std::size_t>(free - held_.begin());
}

void WeightVersions::begin_again() {
  const std::size_t kept = copy_of(newest_);
  held_.assign(held_.size(), -1);
  held_[kept] = newest_ = 0;
}

}  // namespace taxon::train
