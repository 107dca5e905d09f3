#include "launch/local_launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/units.h"
#include "control/secret.h"
#include "launch/children.h"
#include "launch/identity.h"
#include "launch/stop_signals.h"

extern char** environ;

namespace taxon::launch {
namespace {

using Clock = std::chrono::steady_clock;

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
      fail_to_start("no free port of 127.0.0.1");
    port_ = ntohs(address.sin_port);
  }
  ReservedPort(const ReservedPort&) = delete;
  ~ReservedPort() { close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

std::vector<std::string> worker_environment(const LocalLaunch& launch,
                                            const std::map<std::string, std::string>& more) {
  std::vector<std::string> entries;
  for (const auto* variables : {&more, &launch.environment})
    for (const auto& [name, value] : *variables) entries.push_back(name + "=" + value);
  for (char** at = environ; *at != nullptr; ++at) {
    std::string_view entry = *at;
    std::string name(entry.substr(0, entry.find('=')));
    if (!is_launcher_variable(name) && !launch.environment.contains(name) && !more.contains(name))
      entries.emplace_back(entry);
  }
  return entries;
}

struct Worker {
  pid_t pid = -1;
  std::optional<int> status;  // as wait() gives it, once it ended
};

/// Starts the workers and stays until all have ended.
class Supervisor {
 public:
  explicit Supervisor(const LocalLaunch& launch)
      : launch_(launch),
        own_note_(launch.note ? control::Fd() : Note::make()),
        note_(launch.note ? *launch.note : Note(own_note_.get())) {
    if (launch.job) {
      job_ = *launch.job;
      return;
    }
    port_.emplace();
    job_ = {.world_size = launch.workers,
            .address = "127.0.0.1",
            .port = port_->port(),
            .secret = control::random_secret_text()};
  }
  Supervisor(const Supervisor&) = delete;
  ~Supervisor() {
    signal_all(SIGKILL);
    for (Worker& worker : workers_)
      if (!worker.status) waitpid(worker.pid, nullptr, 0);
  }

  int run() {
    // From here on signals_ takes what comes.
    if (launch_.stopped != nullptr && *launch_.stopped)
      throw Error(ErrorKind::Interrupted, "interrupted before the workers were started");
    for (int worker = 0; worker < launch_.workers; ++worker) start(worker);
    while (any_alive()) {
      for (int number : signals_.wait(deadline_, {})) on_signal_byte(number);
      reap();
      if (deadline_ && Clock::now() >= *deadline_) escalate();
    }
    if (suspect_ && !culprit_) name_culprit(behind_the_echo());
    if (stops_.count() > 1) return exit_code(ErrorKind::Interrupted);
    if (overdue_) return exit_code(ErrorKind::Deadline);
    if (culprit_) return code_of(*workers_[*culprit_].status);
    if (interrupted_) return exit_code(ErrorKind::Interrupted);
    return departed_ ? kWithoutLostExit : 0;
  }

 private:
  enum class Ending { No, Rest, Patience, LastPatience, Killed };

  int rank_of(std::size_t worker) const { return job_.first_rank + static_cast<int>(worker); }

  void start(int worker) {
    const int rank = rank_of(static_cast<std::size_t>(worker));
    CStrings environment(worker_environment(launch_, {{"RANK", std::to_string(rank)},
                                                      {"WORLD_SIZE", std::to_string(job_.world_size)},
                                                      {"LOCAL_RANK", std::to_string(worker)},
                                                      {"LOCAL_WORLD_SIZE", std::to_string(launch_.workers)},
                                                      {"NODE_RANK", std::to_string(job_.node)},
                                                      {"MASTER_ADDR", job_.address},
                                                      {"MASTER_PORT", std::to_string(job_.port)},
                                                      {"TAXON_SECRET", job_.secret},
                                                      {Note::kVariable, std::to_string(note_.fd())}}));
    CStrings arguments(launch_.command_line);
    pid_t parent = getpid();
    const bool forks = launch_.main != nullptr && has_one_thread();
    if (forks) write_what_waits();
    sigset_t all, before;
    sigfillset(&all);
    // A signal that came in the child before its exec would count twice.
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) {
      make_worker(parent, before, forks);
      if (forks) run_main(launch_.main, arguments, environment);
      execve(launch_.program.c_str(), arguments.get(), environment.get());
      _exit(kExecFailed);
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) fail_to_start("fork");
    setpgid(pid, pid);
    workers_.push_back({pid, {}});
    if (launch_.on_start) launch_.on_start(rank, pid);
  }

  /// Only what is safe after a fork in a process that may have threads.
  void make_worker(pid_t parent, const sigset_t& mask, bool forks) const {
    end_with_parent(parent);
    setpgid(0, 0);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing > 0) dup2(nothing, 0), close(nothing);
    if (launch_.output >= 0) dup2(launch_.output, STDOUT_FILENO), dup2(launch_.output, STDERR_FILENO);
    fcntl(note_.fd(), F_SETFD, 0);
    for (int fd : launch_.inherited) fcntl(fd, F_SETFD, 0);
    handle_no_signal();
    if (forks) install_early_signals();
    sigprocmask(SIG_SETMASK, &mask, nullptr);
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
    if (first_stop_ == 0) first_stop_ = number;
    if (!is_stop_signal(number)) return signal_all(number);
    if (!stops_.take(Clock::now())) return;
    if (stops_.count() > 1) return signal_all(SIGKILL);
    first_stop_ = number;
    signal_all(number);
    if (launch_.on_stop) launch_.on_stop();
    launch_.say(
        fmt::format("{}: the workers finish their step and write a checkpoint; once more ends them now",
                    strsignal(number)));
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

  void ended(std::size_t worker, int status) {
    const bool stopped = is_orderly_stop(status) || is_early_stop(status);
    if (stopped) interrupted_ = true;
    if (stopped && stops_.count() == 0 && !note_.has_begun()) {
      note_.tell(sentence_of(worker));
      left_early_ = true;
    }
    const bool well = code_of(status) == 0 || stopped || is_without_lost(status);
    if (well) expect_the_rest();
    if (well || culprit_ || overdue_ || stops_.count() > 1) return;
    const bool expendable = std::find(launch_.expendable.begin(), launch_.expendable.end(),
                                      rank_of(worker)) != launch_.expendable.end();
    if (expendable && WIFSIGNALED(status) && (any_alive() || launch_.job)) {
      departed_ = worker;
      note_.tell(sentence_of(worker));
      return launch_.say(sentence_of(worker) +
                         (note_.has_begun() ? kDoneWithout : " before all ranks were there"));
    }
    if (!is_echo(status)) return name_culprit(worker);
    if (suspect_ || left_early_) return;
    suspect_ = worker;
    be_patient(sentence_of(worker));
  }

  /// Ended by the signal that was handed on, which came before the worker could handle it: while the system
  /// still loads its libraries.
  bool is_early_stop(int status) const { return WIFSIGNALED(status) && WTERMSIG(status) == first_stop_; }

  std::string sentence_of(std::size_t worker) const {
    return fmt::format("rank {} (process {}) {}", rank_of(worker), workers_[worker].pid,
                       in_words(*workers_[worker].status));
  }

  /// The run is over, but for what is written at its end.
  void expect_the_rest() {
    if (ending_ != Ending::No || !any_alive()) return;
    ending_ = Ending::Rest;
    deadline_ = Clock::now() + launch_.deadline;
  }

  void name_overdue() {
    overdue_ = true;
    for (std::size_t worker = 0; worker < workers_.size(); ++worker)
      if (!workers_[worker].status)
        launch_.say(
            fmt::format("rank {} (process {}) has not ended, {} after others did: it is ended now. Was "
                        "it stopped, or is its disk stuck? What it had not written by then is missing",
                        rank_of(worker), workers_[worker].pid,
                        format_seconds(static_cast<double>(launch_.deadline.count()) / 1e3)));
  }

  void be_patient(const std::string& why) {
    if (ending_ != Ending::No && ending_ != Ending::Rest) return;
    note_.tell(why);
    ending_ = Ending::Patience;
    patience_ = note_.has_begun() ? launch_.patience : std::min(launch_.patience, launch_.early_patience);
    deadline_ = Clock::now() + patience_;
  }

  /// Whose loss it is that others complain about, as far as is known here: of those that can be done without
  /// the last, if the others could not; or the first who complained.
  std::size_t behind_the_echo() const { return departed_.value_or(*suspect_); }

  void name_culprit(std::size_t worker) {
    culprit_ = worker;
    be_patient(sentence_of(worker));
    std::string others = any_alive()
                             ? fmt::format("; the others have {} to end",
                                           format_seconds(static_cast<double>(patience_.count()) / 1e3))
                             : "";
    launch_.say(sentence_of(worker) + others);
  }

  void escalate() {
    switch (ending_) {
      case Ending::Rest:
      case Ending::Patience:
        if (ending_ == Ending::Rest)
          name_overdue();
        else if (!culprit_)
          name_culprit(behind_the_echo());
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
  std::optional<ReservedPort> port_;
  const control::Fd own_note_;
  const Note note_;
  WiderJob job_;
  std::vector<Worker> workers_;
  std::optional<std::size_t> suspect_, culprit_;
  std::optional<std::size_t> departed_;  // the last spared one that was killed
  bool interrupted_ = false, overdue_ = false;
  bool left_early_ = false;  // somebody was stopped, not by this process, and the others could not meet
  StopCount stops_;
  int first_stop_ = 0;  // the first signal that was handed on to stop the workers; 0: none yet
  Ending ending_ = Ending::No;
  std::chrono::milliseconds patience_{0};
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

int run_workers(const LocalLaunch& launch) { return Supervisor(launch).run(); }

}  // namespace taxon::launch
