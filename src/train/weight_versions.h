#pragma once

#include <vector>

#include "program/action.h"

namespace taxon::train {

/// Which of a rank's copies of its weights has which version, from the update that makes it to the last pass
/// of the program that uses it. Copies are used again in turn.
class WeightVersions {
 public:
  /// `actions`: of this rank, which outlive it. `copies`: at least program::StageMemory::versions of the
  /// stage. The first copy has version 0.
  WeightVersions(const std::vector<program::Action>& actions, std::size_t copies);
  /// The copy that has it. REQUIRES: it was made, and a pass to come uses it or it is the newest.
  std::size_t copy_of(int version) const;
  /// Where the update that is this action of the rank puts what it makes.
  std::size_t make(std::size_t action);
  /// The program begins again, with its newest version as version 0.
  void begin_again();

 private:
  const std::vector<program::Action>& actions_;
  std::vector<std::size_t> last_use_;  // of each version, the index of an action
  std::vector<int> held_;              // by each copy; -1: none
  int newest_ = 0;
};

}  // namespace taxon::train
