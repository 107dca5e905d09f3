#include "apps/taxon/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <ctime>

#include "base/error.h"

namespace taxon::app {
namespace {

// A signal handler reaches nothing but static storage.
std::atomic<bool> stop_requested{false};
std::atomic<long long> first_signal_ms{0};

long long now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<long long>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

void on_signal(int) {
  constexpr int kInterruptedExit = 143;  // exit_code(ErrorKind::Interrupted), which a handler may not call
  long long now = now_ms();
  if (!stop_requested.exchange(true)) {
    first_signal_ms = now;
    return;
  }
  if (now - first_signal_ms < 300) return;
  constexpr char kText[] = "\ntaxon: second signal, ending at once\n";
  [[maybe_unused]] auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(kInterruptedExit);
}

}  // namespace

const std::atomic<bool>& install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaction(signal, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return stop_requested;
}

}  // namespace taxon::app
