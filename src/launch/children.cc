#include "launch/children.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/failure.h"
#include "launch/stop_signals.h"

namespace taxon::launch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array kOtherSignals = {SIGUSR1, SIGCHLD};  // passed on; only wakes the supervisor
std::atomic<int> signal_pipe{-1};                         // a handler has no other way to its supervisor

void take_signal(int number) {
  int saved = errno;
  auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] auto written = write(signal_pipe.load(), &byte, 1);
  errno = saved;
}

}  // namespace

void fail_to_start(const std::string& what) {
  const int error = errno;
  const char* advice = error == EAGAIN ? ": raise ulimit -u, or the container's limit of processes" : "";
  throw Error(kind_of(error, ErrorKind::Rendezvous),
              fmt::format("cannot start workers: {}: {}{}", what, strerror(error), advice));
}

bool is_stop_signal(int number) {
  return std::find(kStopSignals.begin(), kStopSignals.end(), number) != kStopSignals.end();
}

bool StopCount::take(Clock::time_point now) {
  if (count_ > 0 && now - first_ < kSameStop) return false;
  if (++count_ == 1) first_ = now;
  return true;
}

SignalPipe::SignalPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail_to_start("pipe2");
  ends_[0] = control::Fd(ends[0]);
  ends_[1] = control::Fd(ends[1]);
  signal_pipe = ends[1];
  for (int number : kStopSignals) install(number, take_signal);
  for (int number : kOtherSignals) install(number, take_signal);
  install(SIGPIPE, SIG_IGN);
}

SignalPipe::~SignalPipe() {
  for (auto& [number, old] : before_) sigaction(number, &old, nullptr);
  signal_pipe = -1;
}

void SignalPipe::install(int number, void (*handler)(int)) {
  struct sigaction old {};
  sigaction(number, nullptr, &old);
  if (old.sa_handler == SIG_IGN && number != SIGCHLD) return;  // nohup
  struct sigaction action {};
  action.sa_handler = handler;
  sigfillset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, nullptr);
  before_.emplace_back(number, old);
}

std::vector<int> SignalPipe::wait(std::optional<Clock::time_point> limit, std::span<pollfd> more) const {
  int ms = -1;
  if (limit)
    ms = static_cast<int>(std::max<std::int64_t>(
        0, std::chrono::ceil<std::chrono::milliseconds>(*limit - Clock::now()).count()));
  std::vector<pollfd> fds{{ends_[0].get(), POLLIN, 0}};
  fds.insert(fds.end(), more.begin(), more.end());
  poll(fds.data(), fds.size(), ms);
  std::copy(fds.begin() + 1, fds.end(), more.begin());
  std::vector<int> signals;
  unsigned char bytes[64];
  for (ssize_t n; (n = read(ends_[0].get(), bytes, sizeof bytes)) > 0;)
    signals.insert(signals.end(), bytes, bytes + n);
  return signals;
}

void end_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExecFailed);
}

void handle_no_signal() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, nullptr);
  }
}

bool is_without_lost(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == kWithoutLostExit; }

bool is_orderly_stop(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == exit_code(ErrorKind::Interrupted);
}

bool is_echo(int status) {
  if (!WIFEXITED(status)) return false;
  int code = WEXITSTATUS(status);
  return code == exit_code(ErrorKind::PeerLost) || code == exit_code(ErrorKind::Deadline) ||
         code == exit_code(ErrorKind::Transport);
}

int code_of(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return WTERMSIG(status) == SIGKILL ? exit_code(ErrorKind::PeerLost) : 128 + WTERMSIG(status);
}

std::string in_words(int status) {
  if (WIFSIGNALED(status)) {
    int number = WTERMSIG(status);
    std::string hint = number == SIGKILL ? ": by the kernel when memory ran out, or by hand" : "";
    return fmt::format("was killed by signal {} ({}){}", number, strsignal(number), hint);
  }
  int code = WEXITSTATUS(status);
  if (code == kExecFailed) return "could not be started (exit code 127)";
  for (ErrorKind kind : all_error_kinds())
    if (exit_code(kind) == code) return fmt::format("failed with exit code {} ({})", code, to_string(kind));
  return fmt::format("failed with exit code {}", code);
}

}  // namespace taxon::launch
