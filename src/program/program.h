#pragma once

#include <vector>

#include "program/action.h"

namespace taxon::program {

/// What all ranks of a pipeline do from one flush to the next: each its list, in order. A rank carries out an
/// action once the one before has ended; a send ends when its payload may be overwritten, an exchange at
/// once. Sends and receives that stand next to each other in a list begin together.
struct Program {
  int stages = 1;
  int micros = 1;
  std::vector<int> rank_of;                // [stage]
  std::vector<std::vector<Action>> ranks;  // [rank]

  int rank_at(int stage) const { return rank_of[static_cast<std::size_t>(stage)]; }
  bool is_first(int stage) const { return stage == 0; }
  bool is_last(int stage) const { return stage == stages - 1; }
};

/// The passes, exchanges and updates of a rank with the transfers that they need: each receive before the
/// pass that uses it, each send after the pass that makes it. Between stages of one rank nothing travels.
std::vector<Action> with_transfers(const std::vector<Action>& actions, const std::vector<int>& rank_of);

}  // namespace taxon::program
