#pragma once

#include <algorithm>
#include <span>

#include "base/view.h"
#include "codec/scan.h"

namespace taxon::codec {

/// Encodes pieces of `piece` values, each found finite while it is in the cache, so that values are read from
/// memory once. False at the first piece that is not: then undo(what was encoded) takes back what pieces did
/// to the values.
template <class Encode, class Undo>
bool encode_finite(std::span<const float> values, std::size_t piece, Path path, Encode&& encode,
                   Undo&& undo) {
  for (std::size_t first = 0; first < values.size(); first += piece) {
    const Range range{first, std::min(piece, values.size() - first)};
    if (!all_finite(values.subspan(range.begin, range.size), path)) {
      undo(Range{0, first});
      return false;
    }
    encode(range);
  }
  return true;
}

}  // namespace taxon::codec
