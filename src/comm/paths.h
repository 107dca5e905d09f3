#pragma once

#include <span>
#include <string>

#include "net/transport.h"

namespace taxon::comm {

/// "rank 1", "ranks 1 to 3, 7".
std::string describe_ranks(std::span<const Rank> ranks);
/// How bytes reach these ranks: "shared memory (sysv)" if they all do in one way, otherwise "shared memory
/// (sysv) to rank 1; tcp eth0 to ranks 2 to 7". Leaves this rank out; empty if there is no other.
std::string describe_paths(const net::Transport& transport, std::span<const Rank> ranks);

}  // namespace taxon::comm
