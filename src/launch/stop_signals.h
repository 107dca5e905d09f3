#pragma once

#include <atomic>
#include <chrono>

namespace taxon::launch {

/// Stop signals that come so soon after the first are the first once more: launchers and terminals both
/// deliver the same Ctrl-C, and shells and the kernel the same hang-up.
inline constexpr std::chrono::milliseconds kSameStop{300};

/// From the first moment of the process, before main() and the initialisers of libraries, SIGINT, SIGTERM,
/// SIGHUP and SIGUSR1 (some schedulers' warning before the time limit) end it with a line and exit code 143,
/// for there is nothing to save. This installs what comes after that: the first signal sets the returned
/// flag, a second one (kSameStop) ends the process at once with exit code 143. What is ignored, as nohup asks
/// for, stays so. Call once, before threads start. Standard streams that are closed at that first moment are
/// open from then on: what is read or written there fails as before.
const std::atomic<bool>& install_stop_signals();

/// What a process has from its first moment, for one that began as a fork and has none of its parent's.
void install_early_signals();

}  // namespace taxon::launch
