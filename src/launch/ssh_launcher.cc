#include "launch/ssh_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/problems.h"
#include "base/version.h"
#include "launch/agent_messages.h"
#include "launch/children.h"
#include "launch/clock_check.h"
#include "launch/environment.h"
#include "launch/host.h"

namespace taxon::launch {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Agents end their ranks within 5 + 3 seconds; a connection that does not end then is cut.
constexpr std::chrono::seconds kPatience(10);
// ssh's own exit code, for a connection that could not be made or broke.
constexpr int kSshFailed = 255;
// Between lines that say which hosts have not answered.
constexpr std::chrono::seconds kBetweenLines(10);
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// For a POSIX shell.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// Lines of a pipe, as they come.
class Lines {
 public:
  explicit Lines(control::Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  /// Reads what is there; at the end, or for a line without one, what there is counts as a line.
  void read_some() {
    char bytes[65536];
    const ssize_t size = read(fd_.get(), bytes, sizeof bytes);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size > 0) rest_.append(bytes, static_cast<std::size_t>(size));
    if (size <= 0) fd_ = control::Fd();
    for (std::size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1))
      lines_.push_back(rest_.substr(0, end));
    if (!rest_.empty() && (size <= 0 || rest_.size() > kLongestLine))
      lines_.push_back(std::move(rest_)), rest_.clear();
  }
  std::optional<std::string> next() {
    if (lines_.empty()) return {};
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

 private:
  control::Fd fd_;
  std::string rest_;
  std::deque<std::string> lines_;
};

/// One host: the ssh client that holds its agent.
struct Host {
  enum class Stage { Connecting, Asked, Checking, Ready, Running };
  Host(std::string the_name, control::Fd out, control::Fd err)
      : name(std::move(the_name)), output(std::move(out)), errors(std::move(err)) {}

  std::string name;
  pid_t pid = -1;
  control::Fd input;
  Lines output, errors;
  std::optional<int> status;  // as wait() gives it
  Stage stage = Stage::Connecting;
  double asked_at = 0;
  AgentReport report;
  std::vector<std::string> problems;
  std::string said;  // by ssh or the remote shell, before the agent spoke

  void say(const json& line) const {
    const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    [[maybe_unused]] auto written = write(input.get(), text.data(), text.size());
  }
  bool is_settled() const { return status || !problems.empty() || stage == Stage::Ready; }
};

class RemoteLaunch {
 public:
  explicit RemoteLaunch(const SshLaunch& launch) : launch_(launch), job_(launch.job) {
    for (const std::string& host : launch.hosts) connect(host);
  }
  RemoteLaunch(const RemoteLaunch&) = delete;
  ~RemoteLaunch() {
    for (Host& host : hosts_)
      if (!host.status) {
        kill(-host.pid, SIGKILL);
        waitpid(host.pid, nullptr, 0);
      }
  }

  int run() {
    while (!std::all_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.is_settled(); })) {
      turn(told_at_ + kBetweenLines);
      if (stops_.count() > 0) throw Error(ErrorKind::Interrupted, "interrupted before anything was started");
      if (Clock::now() >= told_at_ + kBetweenLines) tell_who_is_awaited();
    }
    require_no_problems();
    go();
    while (any_alive()) {
      turn(deadline_);
      if (deadline_ && Clock::now() >= *deadline_) cut();
    }
    for (Host& host : hosts_) drain(host);
    if (!culprit_ && suspect_) name_culprit(*suspect_);
    if (culprit_) return code_at(*culprit_);
    if (interrupted_ || stops_.count() > 1) return exit_code(ErrorKind::Interrupted);
    return without_lost_ ? kWithoutLostExit : 0;
  }

 private:
  static std::pair<control::Fd, control::Fd> make_pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail_to_start("pipe2");
    return {control::Fd(ends[0]), control::Fd(ends[1])};
  }

  std::vector<std::string> command_for(const std::string& host) const {
    std::vector<std::string> command = words_of(launch_.ssh);
    for (const char* option :
         {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=30", "ServerAliveCountMax=20"})
      command.insert(command.end(), {"-o", option});
    if (!launch_.user.empty()) command.insert(command.end(), {"-l", launch_.user});
    const char* script = "if [ -x \"$0\" ]; then exec \"$0\" agent; fi; exec taxon agent";
    command.insert(command.end(), {"-T", "--", host,
                                   fmt::format("exec sh -c {} {}", quoted(script), quoted(own_program()))});
    return command;
  }

  void connect(const std::string& name) {
    auto [their_input, input] = make_pipe();
    auto [output, their_output] = make_pipe();
    auto [errors, their_errors] = make_pipe();
    for (const control::Fd* fd : {&output, &errors}) fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    const CStrings command(command_for(name));
    const pid_t parent = getpid();
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) {
      end_with_parent(parent);
      setpgid(0, 0);
      dup2(their_input.get(), 0), dup2(their_output.get(), 1), dup2(their_errors.get(), 2);
      handle_no_signal();
      sigprocmask(SIG_SETMASK, &before, nullptr);
      execvp(command.get()[0], command.get());
      _exit(kExecFailed);
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) fail_to_start("fork");
    setpgid(pid, pid);
    hosts_.emplace_back(name, std::move(output), std::move(errors));
    hosts_.back().pid = pid;
    hosts_.back().input = std::move(input);
  }

  bool any_alive() const {
    return std::any_of(hosts_.begin(), hosts_.end(), [](const Host& h) { return !h.status; });
  }

  void tell_who_is_awaited() {
    told_at_ = Clock::now();
    std::vector<std::string> silent, looking;
    for (const Host& host : hosts_)
      if (!host.is_settled()) (host.stage == Host::Stage::Connecting ? silent : looking).push_back(host.name);
    if (!silent.empty())
      launch_.say(
          fmt::format("no answer yet from {} (by {}: does it let you in without a question, and is its "
                      "login quick?)",
                      fmt::join(silent, ", "), launch_.ssh));
    if (!looking.empty())
      launch_.say(fmt::format("still looking at recipe, data set and model: {}", fmt::join(looking, ", ")));
  }

  /// Waits for something, until `limit` at most, and does what follows from it.
  void turn(std::optional<Clock::time_point> limit) {
    std::vector<pollfd> fds;
    for (Host& host : hosts_)
      for (const Lines* lines : {&host.output, &host.errors}) fds.push_back({lines->fd(), POLLIN, 0});
    for (int number : signals_.wait(limit, fds))
      if (is_stop_signal(number) || number == SIGUSR1) pass_on(number);
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (fds[2 * i].revents != 0) hosts_[i].output.read_some();
      if (fds[2 * i + 1].revents != 0) hosts_[i].errors.read_some();
      hear(i);
    }
    for (std::size_t i = 0; i < hosts_.size(); ++i) reap(i);
  }

  void hear(std::size_t index) {
    Host& host = hosts_[index];
    while (auto line = host.errors.next()) {
      if (host.stage == Host::Stage::Connecting)
        host.said += (host.said.empty() ? "" : "; ") + *line;
      else
        print(stderr, host, *line);
    }
    while (auto line = host.output.next()) {
      if (host.stage >= Host::Stage::Ready) {
        print(stdout, host, *line);
        continue;
      }
      const json parsed = json::parse(*line, nullptr, false);
      if (parsed.is_object())
        answer(index, parsed);
      else if (host.problems.empty())  // a greeting of the login shell goes by
        host.said += (host.said.empty() ? "" : "; ") + *line;
    }
  }

  /// Who reads it may be gone, or the disk full: training goes on.
  static void print(FILE* to, const Host& host, const std::string& line) {
    const std::string text = fmt::format("[{}] {}\n", host.name, line);
    if (fwrite(text.data(), 1, text.size(), to) < text.size()) clearerr(to);
    fflush(to);
  }

  void answer(std::size_t index, const json& line) {
    Host& host = hosts_[index];
    switch (host.stage) {
      case Host::Stage::Connecting: {
        host.stage = Host::Stage::Asked;
        if (const std::string version = version_from(line); version != version_number())
          return object(host,
                        fmt::format("it has Taxon {}, this host {}: install the same version on every host",
                                    version, version_number()));
        AgentJob job = job_;
        job.node = static_cast<int>(index);
        job.first_rank = job.node * job.slots;
        host.asked_at = wall_clock();
        return host.say(to_json(job));
      }
      case Host::Stage::Asked: {
        host.stage = Host::Stage::Checking;
        const std::string problem = clock_problem(host.asked_at, time_from(line), wall_clock());
        if (!problem.empty()) object(host, problem);
        return;
      }
      case Host::Stage::Checking: {
        host.report = report_from(line);
        for (const std::string& problem : host.report.problems) object(host, problem);
        host.stage = Host::Stage::Ready;
        return;
      }
      default:
        return;
    }
  }

  static void object(Host& host, const std::string& problem) {
    host.problems.push_back(host.name + ": " + problem);
  }

  void reap(std::size_t index) {
    Host& host = hosts_[index];
    int status = 0;
    if (host.status || waitpid(host.pid, &status, WNOHANG) != host.pid) return;
    host.status = status;
    drain(host);
    hear(index);
    if (host.stage != Host::Stage::Running) {
      if (host.problems.empty()) object(host, why_it_never_ran(host));
      return;
    }
    ended(index);
  }

  /// What is left in its pipes, whose other ends are closed.
  void drain(Host& host) {
    for (Lines* lines : {&host.output, &host.errors})
      for (pollfd fd{lines->fd(), POLLIN, 0}; lines->fd() >= 0 && poll(&fd, 1, 0) > 0;) lines->read_some();
    hear(static_cast<std::size_t>(&host - hosts_.data()));
  }

  static std::string why_it_never_ran(const Host& host) {
    const int code = code_of(*host.status);
    if (code == kExecFailed && WIFEXITED(*host.status) && host.said.find("taxon") != std::string::npos)
      return fmt::format("there is no Taxon: neither {} nor taxon in its PATH ({})", own_program(),
                         host.said);
    return host.said.empty() ? fmt::format("ssh {}", in_words(*host.status)) : host.said;
  }

  void require_no_problems() {
    Problems problems;
    for (const Host& host : hosts_)
      for (const std::string& problem : host.problems) problems.add(problem);
    problems.require_none();
  }

  void go() {
    const Host& first = hosts_.front();
    const Environment environment = process_environment();
    std::string address = first.report.address;
    const auto given = environment.find("MASTER_ADDR");
    if (given != environment.end() && !given->second.empty())
      address = given->second;
    else if (hosts_.size() == 1)
      address = "127.0.0.1";
    else if (address.empty() || is_loopback(address))
      address = first.name;  // launched on it: others know it by its name only
    if (hosts_.size() > 1 && is_loopback(address))
      throw Error(
          ErrorKind::Usage,
          fmt::format("--hosts: rank 0's is {}, which on every other host is that host itself: give it "
                      "the name that the others know it by, or set MASTER_ADDR",
                      address));
    launch_.say(fmt::format("{} ranks on {} hosts, rank 0 at {}:{}", job_.world_size, hosts_.size(), address,
                            first.report.port));
    for (Host& host : hosts_) {
      host.stage = Host::Stage::Running;
      host.say({{"go", {{"address", address}, {"port", first.report.port}}}});
    }
  }

  void pass_on(int number) {
    if (is_stop_signal(number) && !stops_.take(Clock::now())) return;
    for (Host& host : hosts_)
      if (!host.status && host.stage == Host::Stage::Running) host.say({{"signal", number}});
    if (stops_.count() > 1) deadline_ = Clock::now() + kPatience;
  }

  int code_at(std::size_t index) const {
    const int code = code_of(*hosts_[index].status);
    return code == kSshFailed ? exit_code(ErrorKind::PeerLost) : code;
  }

  /// Every rank of the host is one that the others do without.
  bool is_spared(std::size_t index) const {
    for (int slot = 0; slot < job_.slots; ++slot)
      if (std::find(job_.expendable.begin(), job_.expendable.end(),
                    static_cast<int>(index) * job_.slots + slot) == job_.expendable.end())
        return false;
    return true;
  }

  std::string sentence_of(std::size_t index) const {
    const int status = *hosts_[index].status;
    if (code_of(status) == kSshFailed) return hosts_[index].name + ": the connection to its agent broke";
    return fmt::format("{}: {}", hosts_[index].name, in_words(status));
  }

  void ended(std::size_t index) {
    const int status = *hosts_[index].status;
    if (is_orderly_stop(status)) interrupted_ = true;
    if (is_orderly_stop(status) && stops_.count() == 0) tell_of_leaving(index);
    if (is_without_lost(status)) without_lost_ = true;
    if (code_of(status) == 0 || is_orderly_stop(status) || is_without_lost(status) || culprit_ ||
        stops_.count() > 1)
      return;
    if (code_of(status) == kSshFailed && is_spared(index) && any_alive()) {
      without_lost_ = true;
      return launch_.say(sentence_of(index) + kDoneWithout);
    }
    if (!is_echo(status)) return name_culprit(index);
    if (left_) return;  // those who had not met complain of that
    if (!suspect_) suspect_ = index;
    end_others(index);
  }

  /// Ranks that have met know, and end in order; others would wait for it.
  void tell_of_leaving(std::size_t index) {
    left_ = true;
    for (Host& host : hosts_)
      if (!host.status) host.say({{"left", sentence_of(index)}});
  }

  void name_culprit(std::size_t index) {
    culprit_ = index;
    launch_.say(sentence_of(index));
    end_others(index);
  }

  void end_others(std::size_t index) {
    if (deadline_) return;
    deadline_ = Clock::now() + kPatience;
    for (Host& host : hosts_)
      if (!host.status) host.say({{"end", sentence_of(index)}});
  }

  /// Whoever has not ended by now won't: its agent ends its ranks when the connection does.
  void cut() {
    if (!culprit_ && suspect_) name_culprit(*suspect_);
    deadline_.reset();
    for (Host& host : hosts_)
      if (!host.status) kill(-host.pid, SIGKILL);
  }

  const SshLaunch& launch_;
  const AgentJob& job_;
  SignalPipe signals_;
  std::vector<Host> hosts_;
  std::optional<std::size_t> suspect_, culprit_;
  std::optional<Clock::time_point> deadline_;
  Clock::time_point told_at_ = Clock::now();
  bool interrupted_ = false, without_lost_ = false;
  bool left_ = false;  // a host's ranks were stopped, not by this process
  StopCount stops_;
};

}  // namespace

int launch_over_ssh(const SshLaunch& launch) { return RemoteLaunch(launch).run(); }

}  // namespace taxon::launch
