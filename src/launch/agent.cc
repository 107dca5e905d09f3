#include "launch/agent.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/version.h"
#include "launch/agent_messages.h"
#include "launch/environment.h"
#include "launch/host.h"
#include "launch/local_launcher.h"

namespace taxon::launch {
namespace {

using nlohmann::json;

void print(const json& line) {
  std::cout << line.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

/// The next line of the launcher, or nothing when it is gone.
json next_line() {
  std::string line;
  if (!std::getline(std::cin, line)) return nullptr;
  json parsed = json::parse(line, nullptr, false);
  if (!parsed.is_object()) misunderstood("a line that is no object");
  return parsed;
}

/// A port of this host that stays reserved: bound, but not listened on, while rank 0 (with SO_REUSEADDR, like
/// this) can listen there.
class FreePort {
 public:
  FreePort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int yes = 1;
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t size = sizeof any;
    auto* generic = reinterpret_cast<sockaddr*>(&any);
    if (!fd_.valid() || setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd_.get(), generic, size) != 0 || getsockname(fd_.get(), generic, &size) != 0)
      fail_to_start("no free port");
    number_ = ntohs(any.sin_port);
  }
  int number() const { return number_; }

 private:
  control::Fd fd_;
  int number_ = 0;
};

/// "SSH_CONNECTION=client port server port".
std::string own_address(const Environment& environment) {
  auto found = environment.find("SSH_CONNECTION");
  if (found == environment.end()) return "";
  std::istringstream words(found->second);
  std::string client, port, server;
  words >> client >> port >> server;
  return server;
}

/// Makes of the launcher's lines signals for this process, which runs the ranks.
class Obedience {
 public:
  Obedience(Note note, const LocalLaunch& launch) : note_(note), launch_(launch) {}

  void operator()() const {
    while (true) {
      json line;
      try {
        line = next_line();
      } catch (const std::exception&) {
        line = nullptr;
      }
      if (line.is_null()) return end("the launcher is gone");
      if (line.contains("signal") && line["signal"].is_number_integer())
        kill(getpid(), line["signal"].get<int>());
      if (line.contains("left") && line["left"].is_string() && !note_.has_begun())
        note_.tell(line["left"].get<std::string>());
      if (line.contains("end") && line["end"].is_string()) return end(line["end"].get<std::string>());
    }
  }

 private:
  void end(const std::string& why) const {
    note_.tell(why);
    // Ranks that have met hear of it from each other; where they can't, they are ended.
    std::this_thread::sleep_for(note_.has_begun() ? launch_.patience : launch_.early_patience);
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(launch_.last_patience);
    kill(getpid(), SIGTERM);
  }

  Note note_;
  const LocalLaunch& launch_;
};

int run_ranks(const AgentOptions& options, const AgentJob& job, const AgentGo& go) {
  control::Fd plan(memfd_create("taxon-plan", MFD_CLOEXEC));
  if (!plan.valid() ||
      write(plan.get(), job.plan.data(), job.plan.size()) != static_cast<ssize_t>(job.plan.size()))
    fail_to_start("memfd_create");
  control::Fd note = Note::make();
  LocalLaunch launch;
  launch.workers = job.slots;
  launch.job = WiderJob{.first_rank = job.first_rank,
                        .world_size = job.world_size,
                        .node = job.node,
                        .address = go.address,
                        .port = go.port,
                        .secret = job.secret};
  launch.command_line = {"taxon", "train"};
  for (const std::string& word : job.words)
    launch.command_line.push_back(word == AgentJob::kPlanWord ? fmt::format("/proc/self/fd/{}", plan.get())
                                                              : word);
  launch.say = options.say;
  launch.expendable = job.expendable;
  launch.deadline = std::chrono::milliseconds(job.deadline_ms);
  launch.inherited = {plan.get()};
  launch.note = Note(note.get());
  std::thread(Obedience(*launch.note, launch)).detach();
  const int code = run_workers(launch);
  std::cout.flush();
  _exit(code);  // the thread waits for the launcher's next line
}

std::vector<std::string> problems_of(const AgentOptions& options, const AgentJob& job) {
  if (chdir(job.folder.c_str()) != 0)
    return {fmt::format("the folder {} cannot be entered there: {}", job.folder, strerror(errno))};
  return options.check(job);
}

}  // namespace

int serve(const AgentOptions& options) {
  print({{"agent", 1}, {"version", version_number()}});
  const json first = next_line();
  if (first.is_null()) return 0;
  print({{"time", wall_clock()}});
  const AgentJob job = job_from(first);
  AgentReport report;
  report.problems = problems_of(options, job);
  report.address = own_address(process_environment());
  const FreePort port;
  report.port = port.number();
  print(to_json(report));
  const json go = next_line();
  if (go.is_null() || !go.contains("go")) return 0;
  return run_ranks(options, job, go_from(go["go"]));
}

}  // namespace taxon::launch
