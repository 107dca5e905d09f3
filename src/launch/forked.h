#pragma once

#include <functional>
#include <string>

#include "launch/children.h"

namespace taxon::launch {

// A fork has its libraries loaded already, and shares their pages with the process that it comes from: why
// that is worth it stands in docs/decisions/0015-workers-are-forks.md.

/// As main() is declared.
using MainFunction = int (*)(int argc, char** argv);

/// No thread but the calling one, so that a fork is whole: it would miss the other threads, but have the
/// locks that they held and wait for what they owed.
bool has_one_thread();

/// Before a fork that may write, too: it would write once more what waits for standard output.
void write_what_waits();

/// In a fork, in place of exec: closes the descriptors that exec would, and ends with the code that `main`
/// returns. Nothing is unwound: what the process that it comes from owned stays that one's.
[[noreturn]] void run_main(MainFunction main, const CStrings& arguments,
                           const CStrings& environment) noexcept;

/// Runs `work` in a fork, whose memory and threads are gone afterwards. Throws the Error that it ended with;
/// for an end without one `name` says what it was ("opening the data set"). A process with more threads than
/// one runs it itself.
void run_apart(const std::string& name, const std::function<void()>& work);

}  // namespace taxon::launch
