#include "optim/rule.h"

#include <iterator>

namespace taxon::optim {

void Rule::set_zero_at(Range state, std::int64_t step) {
  if (state.size == 0) return;
  const std::int64_t behind = zero_at(state.end());
  zero_at_.erase(zero_at_.lower_bound(state.begin), zero_at_.upper_bound(state.end()));
  zero_at_[state.begin] = step;
  zero_at_[state.end()] = behind;
}

std::int64_t Rule::zero_at(std::size_t state) const {
  const auto next = zero_at_.upper_bound(state);
  return next == zero_at_.begin() ? 0 : std::prev(next)->second;
}

}  // namespace taxon::optim
