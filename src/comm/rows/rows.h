#pragma once

#include "comm/collectives.h"

namespace taxon::comm {

// The rows of the table, one file for each algorithm. docs/collectives.md explains them.

// What a member sends: nothing (its peers read it), everything but its own part once, or twice.
inline double sends_nothing(const Shape&) { return 0; }
inline double sends_share(const Shape& shape) {
  return static_cast<double>(shape.bytes) * (shape.size - 1) / shape.size;
}
inline double sends_two_shares(const Shape& shape) { return 2 * sends_share(shape); }

CollectiveRow direct_all_reduce();
CollectiveRow one_shot_all_reduce();
CollectiveRow ring_all_reduce();
CollectiveRow halving_doubling_all_reduce();
CollectiveRow tree_all_reduce();

CollectiveRow direct_reduce_scatter();
CollectiveRow ring_reduce_scatter();

CollectiveRow direct_all_gather();
CollectiveRow ring_all_gather();

CollectiveRow direct_broadcast();
CollectiveRow tree_broadcast();

CollectiveRow direct_barrier();
CollectiveRow dissemination_barrier();

}  // namespace taxon::comm
