#pragma once

#include <algorithm>

#include "base/view.h"

namespace taxon::codec {

/// Encodes `count` values in pieces of `piece`. encode(range) returns how many values of the piece it has
/// encoded: all, or those before some that are not finite. Then undo(range of all that were encoded) takes
/// back what pieces did to the values, and the result is false.
template <class Encode, class Undo>
bool encode_finite(std::size_t count, std::size_t piece, Encode&& encode, Undo&& undo) {
  for (std::size_t first = 0; first < count; first += piece) {
    const Range range{first, std::min(piece, count - first)};
    const std::size_t encoded = encode(range);
    if (encoded == range.size) continue;
    undo(Range{0, first + encoded});
    return false;
  }
  return true;
}

}  // namespace taxon::codec
