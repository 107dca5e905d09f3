#pragma once

#include "comm/collectives.h"

namespace taxon::comm {

// Of rows of the table, one file for each algorithm. docs/collectives.md explains them.
// What a member sends: nothing (its peers read it), everything but its own part once, or twice.
inline double sends_nothing(const Shape&) { return 0; }
inline double sends_share(const Shape& shape) {
  return static_cast<double>(shape.bytes) * (shape.size - 1) / shape.size;
}
inline double sends_two_shares(const Shape& shape) { return 2 * sends_share(shape); }

}  // namespace taxon::comm
