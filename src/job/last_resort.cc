#include "job/last_resort.h"

#include <unistd.h>

#include <csignal>

namespace taxon::job {
namespace {

// A rank must be gone within five seconds of a loss; this is for one that is stuck in a kernel that can't be
// interrupted.
constexpr unsigned kSeconds = 4;

void on_alarm(int) {
  constexpr char kText[] = "taxon: the rank did not unwind in time after a fatal event and is ended now\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
  constexpr int kPeerLostExit = 75;  // exit_code(ErrorKind::PeerLost), which a handler may not call
  _exit(kPeerLostExit);
}

}  // namespace

void LastResort::install() { signal(SIGALRM, on_alarm); }

void LastResort::on_loss() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
  settle();
}

void LastResort::set_running(bool runs) {
  const std::lock_guard lock(mutex_);
  runs_ = runs;
  settle();
}

void LastResort::set_waiting_for_program(bool waits) {
  const std::lock_guard lock(mutex_);
  waits_for_program_ = waits;
  settle();
}

void LastResort::settle() {
  const bool wanted = lost_ && runs_ && !waits_for_program_;
  if (wanted == armed_) return;
  alarm(wanted ? kSeconds : 0);
  armed_ = wanted;
}

}  // namespace taxon::job
