#include "launch/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <iterator>

#include "base/error.h"

namespace taxon::launch {
namespace {

constexpr int kInterruptedExit = 143;  // exit_code(ErrorKind::Interrupted), which a handler may not call
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// A signal handler reaches nothing but static storage.
std::atomic<bool> stop_requested{false};
std::atomic<long long> first_signal_ms{0};

long long now_ms() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<long long>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

[[noreturn]] void end_now(const char* text) {
  [[maybe_unused]] auto written = write(STDERR_FILENO, text, strlen(text));
  _exit(kInterruptedExit);
}

void on_signal(int) {
  long long now = now_ms();
  long long first = 0;
  if (first_signal_ms.compare_exchange_strong(first, now)) {
    stop_requested = true;
    return;
  }
  if (now - first < kSameStop.count()) return;
  end_now("\ntaxon: second signal, ending at once\n");
}

void on_early_signal(int) {
  end_now("taxon: interrupted: ended by a signal before there was anything to save\n");
}

// As nohup asks for. Libraries may undo it, so it is kept.
bool ignored[std::size(kSignals)];

void install(void (*handler)(int)) {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    action.sa_handler = ignored[i] ? SIG_IGN : handler;
    sigaction(kSignals[i], &action, nullptr);
  }
}

/// A closed standard stream's number would go to the next file that is opened, and lines for people into it.
/// Reading and writing fail as they did.
void fill_closed_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void at_start(int, char**, char**) {
  fill_closed_streams();
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction before {};
    sigaction(kSignals[i], nullptr, &before);
    ignored[i] = before.sa_handler == SIG_IGN;
  }
  install_early_signals();
  // Inherited, it would have the system forget how children ended.
  signal(SIGCHLD, SIG_DFL);
  // A file that grows over the process's limit is an error of its write.
  signal(SIGXFSZ, SIG_IGN);
}

// The process's first instructions: the initialisers of libraries, which take longest, come after it.
[[gnu::section(".preinit_array"), gnu::used]] void (*const first)(int, char**, char**) = at_start;

}  // namespace

void install_early_signals() { install(on_early_signal); }

const std::atomic<bool>& install_stop_signals() {
  install(on_signal);
  signal(SIGPIPE, SIG_IGN);
  return stop_requested;
}

}  // namespace taxon::launch
