#include "apps/taxon/local_launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "apps/taxon/identity.h"
#include "base/error.h"
#include "base/units.h"
#include "control/secret.h"

extern char** environ;

namespace taxon::app {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks that lost a peer may end before the launcher has seen that peer's end.
constexpr std::chrono::milliseconds kEchoTime(500);
constexpr int kExecFailed = 127;

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::Rendezvous,
              fmt::format("cannot start local workers: {}: {}", what, strerror(errno)));
}

// ---- signals

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array kOtherSignals = {SIGUSR1, SIGCHLD};  // passed on; only wakes the supervisor
std::atomic<int> signal_pipe{-1};                         // a handler has no other way to its supervisor

void on_signal(int number) {
  int saved = errno;
  auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] auto written = write(signal_pipe.load(), &byte, 1);
  errno = saved;
}

/// Turns signals into bytes of a pipe while it lives. Handlers, not a signalfd: libraries may have threads
/// that don't block the signals.
class SignalPipe {
 public:
  SignalPipe() {
    if (pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe2");
    signal_pipe = ends_[1];
    for (int number : kStopSignals) install(number);
    for (int number : kOtherSignals) install(number);
  }
  SignalPipe(const SignalPipe&) = delete;
  ~SignalPipe() {
    for (auto& [number, old] : before_) sigaction(number, &old, nullptr);
    signal_pipe = -1;
    close(ends_[0]);
    close(ends_[1]);
  }

  /// The signals that came, oldest first; waits for the first at most until `limit`.
  std::vector<int> wait(std::optional<Clock::time_point> limit) const {
    int ms = -1;
    if (limit) ms = static_cast<int>(std::max<std::int64_t>(0, ceil_ms(*limit - Clock::now())));
    pollfd fd{ends_[0], POLLIN, 0};
    poll(&fd, 1, ms);
    std::vector<int> signals;
    unsigned char bytes[64];
    for (ssize_t n; (n = read(ends_[0], bytes, sizeof bytes)) > 0;)
      signals.insert(signals.end(), bytes, bytes + n);
    return signals;
  }
  /// In a child between fork and exec.
  void restore_defaults() const {
    for (auto& [number, old] : before_) sigaction(number, &old, nullptr);
  }

 private:
  static std::int64_t ceil_ms(Clock::duration d) {
    return std::chrono::ceil<std::chrono::milliseconds>(d).count();
  }
  void install(int number) {
    struct sigaction old {};
    sigaction(number, nullptr, &old);
    if (old.sa_handler == SIG_IGN && number != SIGCHLD) return;  // nohup
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigfillset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
    before_.emplace_back(number, old);
  }

  int ends_[2] = {-1, -1};
  std::vector<std::pair<int, struct sigaction>> before_;
};

// ---- what the workers need

/// A port of 127.0.0.1 that stays reserved: it is bound but not listened on, which keeps others from getting
/// it while rank 0 (with SO_REUSEADDR, like this) can listen there.
class ReservedPort {
 public:
  ReservedPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int yes = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd_, generic, size) != 0 || getsockname(fd_, generic, &size) != 0)
      fail("no free port of 127.0.0.1");
    port_ = ntohs(address.sin_port);
  }
  ReservedPort(const ReservedPort&) = delete;
  ~ReservedPort() { close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

/// A null-terminated array of C strings, made before fork because nothing may be allocated after it.
class CStrings {
 public:
  explicit CStrings(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

std::vector<std::string> worker_environment(const LocalLaunch& launch,
                                            const std::map<std::string, std::string>& more) {
  std::vector<std::string> entries;
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view entry = *at;
    std::string name(entry.substr(0, entry.find('=')));
    if (!is_launcher_variable(name) && !launch.environment.contains(name) && !more.contains(name))
      entries.emplace_back(entry);
  }
  for (const auto* variables : {&launch.environment, &more})
    for (const auto& [name, value] : *variables) entries.push_back(name + "=" + value);
  return entries;
}

// ---- how workers end

struct Worker {
  pid_t pid = -1;
  std::optional<int> status;  // as wait() gives it, once it ended
};

bool is_without_lost(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == kWithoutLostExit; }

bool is_orderly_stop(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == exit_code(ErrorKind::Interrupted);
}

/// Ends that are usually the consequence of another rank's end.
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

/// Starts the workers and stays until all have ended.
class Supervisor {
 public:
  explicit Supervisor(const LocalLaunch& launch) : launch_(launch) {}
  Supervisor(const Supervisor&) = delete;
  ~Supervisor() {
    signal_all(SIGKILL);
    for (Worker& worker : workers_)
      if (!worker.status) waitpid(worker.pid, nullptr, 0);
  }

  int run() {
    std::string secret = control::random_secret_text();
    for (int rank = 0; rank < launch_.workers; ++rank) start(rank, secret);
    while (any_alive()) {
      for (int number : signals_.wait(deadline_)) on_signal_byte(number);
      reap();
      if (deadline_ && Clock::now() >= *deadline_) escalate();
    }
    if (suspect_ && !culprit_) name_culprit(*suspect_);
    if (stops_ > 1) return exit_code(ErrorKind::Interrupted);
    if (culprit_) return code_of(*workers_[*culprit_].status);
    if (interrupted_) return exit_code(ErrorKind::Interrupted);
    return departed_ ? kWithoutLostExit : 0;
  }

 private:
  enum class Ending { No, Echo, Patience, LastPatience, Killed };

  void start(int rank, const std::string& secret) {
    std::string number = std::to_string(rank), count = std::to_string(launch_.workers);
    CStrings environment(worker_environment(launch_, {{"RANK", number},
                                                      {"WORLD_SIZE", count},
                                                      {"LOCAL_RANK", number},
                                                      {"LOCAL_WORLD_SIZE", count},
                                                      {"MASTER_ADDR", "127.0.0.1"},
                                                      {"MASTER_PORT", std::to_string(port_.port())},
                                                      {"TAXON_SECRET", secret}}));
    CStrings arguments(launch_.command_line);
    pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    // A signal that came in the child before its exec would count twice.
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) become_worker(parent, before, arguments, environment);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) fail("fork");
    setpgid(pid, pid);
    workers_.push_back({pid, {}});
    if (launch_.on_start) launch_.on_start(rank, pid);
  }

  /// Only what is safe after a fork in a process that may have threads.
  [[noreturn]] void become_worker(pid_t parent, const sigset_t& mask, const CStrings& arguments,
                                  const CStrings& environment) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kExecFailed);
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing > 0) dup2(nothing, 0), close(nothing);
    if (launch_.output >= 0) dup2(launch_.output, STDOUT_FILENO), dup2(launch_.output, STDERR_FILENO);
    signals_.restore_defaults();
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execve(launch_.program.c_str(), arguments.get(), environment.get());
    _exit(kExecFailed);
  }

  bool any_alive() const {
    return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return !w.status; });
  }

  void signal_all(int number) {
    for (Worker& worker : workers_)
      if (!worker.status) kill(-worker.pid, number);
  }

  void on_signal_byte(int number) {
    if (number == SIGCHLD) return;
    bool stop = std::find(kStopSignals.begin(), kStopSignals.end(), number) != kStopSignals.end();
    if (!stop) return signal_all(number);
    if (++stops_ == 1) {
      launch_.say(
          fmt::format("{}: the workers finish their step and write a checkpoint; once more ends them now",
                      strsignal(number)));
      return signal_all(number);
    }
    signal_all(SIGKILL);
  }

  void reap() {
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      Worker& worker = workers_[rank];
      siginfo_t info{};
      if (worker.status ||
          waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0)
        continue;
      // Its number stays taken until it is reaped, so this can only meet what it left behind.
      kill(-worker.pid, SIGKILL);
      int status = 0;
      waitpid(worker.pid, &status, 0);
      worker.status = status;
      ended(rank, status);
    }
  }

  void ended(std::size_t rank, int status) {
    if (is_orderly_stop(status)) interrupted_ = true;
    if (code_of(status) == 0 || is_orderly_stop(status) || is_without_lost(status) || culprit_ || stops_ > 1)
      return;
    const bool spared = std::find(launch_.spared.begin(), launch_.spared.end(), static_cast<int>(rank)) !=
                        launch_.spared.end();
    if (spared && WIFSIGNALED(status) && any_alive()) {
      if (!departed_) departed_ = rank;
      return launch_.say(fmt::format("rank {} (process {}) {}; the others can do without it", rank,
                                     workers_[rank].pid, in_words(status)));
    }
    if (!is_echo(status)) return name_culprit(rank);
    if (departed_) return name_culprit(*departed_);
    if (suspect_) return;
    suspect_ = rank;
    ending_ = Ending::Echo;
    deadline_ = Clock::now() + kEchoTime;
  }

  void name_culprit(std::size_t rank) {
    culprit_ = rank;
    ending_ = Ending::Patience;
    deadline_ = Clock::now() + launch_.patience;
    std::string others =
        any_alive() ? fmt::format("; the others have {} to end",
                                  format_seconds(static_cast<double>(launch_.patience.count()) / 1e3))
                    : "";
    launch_.say(fmt::format("rank {} (process {}) {}{}", rank, workers_[rank].pid,
                            in_words(*workers_[rank].status), others));
  }

  void escalate() {
    switch (ending_) {
      case Ending::Echo:
        return name_culprit(*suspect_);
      case Ending::Patience:
        signal_all(SIGTERM);
        ending_ = Ending::LastPatience;
        deadline_ = Clock::now() + launch_.last_patience;
        return;
      default:
        signal_all(SIGKILL);
        ending_ = Ending::Killed;
        deadline_.reset();
    }
  }

  const LocalLaunch& launch_;
  SignalPipe signals_;
  ReservedPort port_;
  std::vector<Worker> workers_;
  std::optional<std::size_t> suspect_, culprit_;
  std::optional<std::size_t> departed_;  // the first spared one that was killed
  bool interrupted_ = false;
  int stops_ = 0;
  Ending ending_ = Ending::No;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

int run_workers(const LocalLaunch& launch) { return Supervisor(launch).run(); }

}  // namespace taxon::app
