#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/view.h"

namespace taxon::optim {

/// Calls `body(piece, decayed)` for the maximal pieces of `range` that lie wholly inside or outside of the
/// sorted ranges `decayed`, so that the inner loops have no branch per element.
template <class Body>
void for_pieces(Range range, const std::vector<Range>& decayed, Body&& body) {
  std::size_t position = range.begin;
  auto next = std::lower_bound(decayed.begin(), decayed.end(), position,
                               [](const Range& r, std::size_t p) { return r.end() <= p; });
  while (position < range.end()) {
    bool inside = next != decayed.end() && next->begin <= position;
    std::size_t end = range.end();
    if (next != decayed.end()) end = std::min(end, inside ? next->end() : next->begin);
    body(Range{position, end - position}, inside);
    position = end;
    if (next != decayed.end() && next->end() <= position) ++next;
  }
}

/// Decay of a piece as the rule applies it.
inline double decay_of(double weight_decay, bool decayed) { return decayed ? weight_decay : 0.0; }

}  // namespace taxon::optim
