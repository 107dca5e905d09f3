#pragma once

#include <functional>

namespace taxon::task {

/// Calls body(0) ... body(parts - 1), beside each other on the calling thread's OpenMP team, and returns when
/// all have ended. Where libtorch computes on this thread with `parts` threads it is the same team: no thread
/// more wants a core. A part's error is thrown afterwards, one of them if several fail. Any thread; `parts`
/// is at least 1.
void by_team(int parts, const std::function<void(int)>& body);

}  // namespace taxon::task
