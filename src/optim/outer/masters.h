#pragma once

#include <algorithm>

#include "optim/outer.h"

namespace taxon::optim {

/// Calls `body(T zero)` for the floating type of `arena`, which is a master's: float32 or float64.
template <class Body>
void for_master(const tensor::Arena& arena, Body&& body) {
  dispatch(arena.type(), [&](auto zero) {
    if constexpr (std::is_floating_point_v<decltype(zero)>) body(zero);
  });
}

/// A centre's or an anchor's elements of the place := the weights there.
inline void begin_as(const tensor::Arena& weights, UpdateRange place, const tensor::Arena& centre) {
  for_master(weights, [&](auto zero) {
    using T = decltype(zero);
    auto from = weights.values<T>(place.weights);
    std::copy(from.begin(), from.end(), centre.values<T>({place.state, from.size()}).begin());
  });
}

}  // namespace taxon::optim
