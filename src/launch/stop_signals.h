#pragma once

#include <atomic>

namespace taxon::launch {

/// From the first moment of the process, before main() and the initialisers of libraries, SIGINT, SIGTERM,
/// SIGHUP and SIGUSR1 (some schedulers' warning before the time limit) end it with a line and exit code 143,
/// for there is nothing to save. This installs what comes after that: the first signal sets the returned
/// flag, a second one ends the process at once with exit code 143. Signals within 300 ms count as one:
/// launchers and terminals both deliver the same Ctrl-C. What is ignored, as nohup asks for, stays so. Call
/// once, before threads start.
const std::atomic<bool>& install_stop_signals();

}  // namespace taxon::launch
