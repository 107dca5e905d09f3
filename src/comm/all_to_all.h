#pragma once

#include <vector>

#include "comm/communicator.h"

namespace taxon::comm {

/// What a member gives to each member, and where it puts what comes from each, its own place included; none
/// overlap. The size of a member's outgoing[i] is that of member i's incoming[member]: Error{Mismatch} where
/// it is not. Empty ones are no messages.
struct AllToAll {
  std::vector<ConstView> outgoing;
  std::vector<View> incoming;
  DType type = DType::Float32;
  std::uint32_t unit = 0;
};

/// Collective: MPI_Alltoallv. All messages begin at once. The group is established; it and the memory outlive
/// the task.
task::Task<void> all_to_all(Communicator& group, AllToAll call);

}  // namespace taxon::comm
