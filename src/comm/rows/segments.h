#pragma once

#include <algorithm>

#include "base/view.h"

namespace taxon::comm {

/// How a range of `bytes` is cut so that receiving, summing and sending on overlap: pieces of at least
/// 128 KiB, at most 64 of them. Large enough that a message's fixed cost and a kernel's are small beside it,
/// small enough that the time until the first piece can travel on is small beside the whole.
constexpr std::size_t kSegmentBytes = std::size_t{128} << 10;
constexpr std::size_t kMostSegments = 64;

constexpr std::size_t segments_for(std::size_t bytes) {
  return std::clamp<std::size_t>((bytes + kSegmentBytes - 1) / kSegmentBytes, 1, kMostSegments);
}

/// The bytes of a range of elements.
inline View elements(View data, DType type, Range range) {
  return data.slice(range.begin * size_of(type), range.size * size_of(type));
}

}  // namespace taxon::comm
