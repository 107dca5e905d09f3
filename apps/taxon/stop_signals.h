#pragma once

#include <atomic>

namespace taxon::app {

/// Installs the handlers of SIGINT, SIGTERM, SIGHUP and SIGUSR1 (some schedulers' warning before the time
/// limit): the first signal sets the returned flag, a second one ends the process at once with exit code 143.
/// Signals within 300 ms count as one: launchers and terminals both deliver the same Ctrl-C. Call once,
/// before threads start.
const std::atomic<bool>& install_stop_signals();

}  // namespace taxon::app
