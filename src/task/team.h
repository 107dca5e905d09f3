#pragma once

#include <functional>
#include <vector>

namespace taxon::task {

/// Calls body(0) ... body(parts - 1), beside each other on the calling thread's OpenMP team, and returns when
/// all have ended. Where libtorch computes on this thread with `parts` threads it is the same team: no thread
/// more wants a core. A part's error is thrown afterwards, one of them if several fail. Any thread; `parts`
/// is at least 1.
void by_team(int parts, const std::function<void(int)>& body);

/// From the next by_team() on the threads of the calling thread's team keep to one core each, all but the
/// calling one: they poll for their next work, and whoever else wakes up on this machine must not move two of
/// them to one core. A refusal only costs speed.
void keep_team_to(std::vector<int> cores);

}  // namespace taxon::task
