#pragma once

#include <vector>

namespace taxon::launch {

/// Which cores a rank should keep to: its share of those that the ranks of its host may use, so that no two
/// compute threads ever wait for one core while another is idle. `allowed`: the cores that each rank of the
/// machine may use, in the order of the ranks; `me`: this rank's place among them; `threads`: its compute
/// threads. Empty: all that it may use already, since it is alone, its launcher bound the ranks, or they
/// compute with more threads than there are cores.
std::vector<int> share_of_cores(const std::vector<std::vector<int>>& allowed, int me, int threads);

/// How many of the ranks may use a core that rank `me` may use, itself included.
int ranks_on_cores_of(const std::vector<std::vector<int>>& allowed, int me);

/// Keeps the calling thread, and those that it starts from now on, to `cores`. A refusal only costs speed.
void bind_to(const std::vector<int>& cores);

}  // namespace taxon::launch
