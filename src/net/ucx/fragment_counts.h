#pragma once

#include <cstdint>

namespace taxon::net {

/// How fragments went to a peer: straight out of the payload, or as a copy that waited for its turn.
struct FragmentCounts {
  std::uint64_t direct = 0;
  std::uint64_t copied = 0;
  std::uint64_t confirmed = 0;  // the receiver was asked to confirm these, and all before
};

}  // namespace taxon::net
