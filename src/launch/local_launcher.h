#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/children.h"
#include "launch/forked.h"
#include "launch/note.h"

namespace taxon::launch {

/// The job that some of this host's workers belong to, where it has more ranks than them.
struct WiderJob {
  int first_rank = 0, world_size = 1, node = 0;
  std::string address;  // rank 0's
  int port = 0;
  std::string secret;
};

struct LocalLaunch {
  int workers = 1;
  std::optional<WiderJob> job;                     // absent: the workers are all ranks, and meet at 127.0.0.1
  std::vector<std::string> command_line;           // the workers' argv, its first word included
  std::map<std::string, std::string> environment;  // added to this process's
  std::function<void(const std::string&)> say;     // lines for the log
  std::function<void(int rank, pid_t pid)> on_start;
  std::function<void()> on_stop;               // the first stop signal came; the workers may still end well
  const std::atomic<bool>* stopped = nullptr;  // one came before run_workers() was called; null: none could
  std::vector<int>
      expendable;  // ranks that the others do without: a signal that ends one of them ends no other
  std::vector<int> inherited;  // descriptors that workers keep
  std::optional<Note> note;    // absent: one of its own
  std::string program = "/proc/self/exe";
  /// This program's, or none. Workers whose command line is this process's run it in forks of this process,
  /// if that has one thread, and otherwise execute `program`.
  MainFunction main = nullptr;
  int output = -1;  // descriptor for what the workers print; -1: this process's stdout and stderr
  /// After the first failure: how long the others may take to end by themselves, and then to obey SIGTERM.
  std::chrono::milliseconds patience{std::chrono::seconds(5)};
  /// The first where ranks had not yet met: nothing is lost with them.
  std::chrono::milliseconds early_patience{700};
  std::chrono::milliseconds last_patience{std::chrono::seconds(3)};
  /// After the first that ended well: how long the others may still take. No rank listens to them any more.
  std::chrono::milliseconds deadline{std::chrono::minutes(10)};
};

/// Runs `workers` copies of this program on this host as the ranks of one job, with RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and a random TAXON_SECRET; each leads a process
/// group of its own and has no input. Returns when all have ended:
///   0                 all succeeded
///   3                 all succeeded but for spared ones that were killed
///   who failed        its exit code; 75 (peer lost) if it got SIGKILL, else 128 + the signal that ended it
///   74 (deadline)     a worker did not end although others had ended well; it is named, and ended
///   143               SIGINT, SIGTERM or SIGHUP came (they go to all workers; the second time as SIGKILL)
/// The worker that failed first is named. Others that only complain about its loss are not mistaken for it,
/// whoever ends first. Workers that have not met yet are told who died, so that they don't wait for it.
/// No worker outlives this process, even if that is killed. Call it from the main thread; it installs signal
/// handlers while it runs. Throws Error{Rendezvous} if a worker cannot be started, Error{Interrupted} if none
/// was because of `stopped`.
int run_workers(const LocalLaunch& launch);

}  // namespace taxon::launch
