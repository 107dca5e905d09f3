#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/socket.h"

namespace taxon::launch {

// What the launchers of this program have in common: children, signals and how processes end.

/// Of one whose loss a job survives, as far as a launcher knows.
inline constexpr const char* kDoneWithout =
    "; the others can do without it, unless all were together just then (for a test, a checkpoint or the "
    "end)";
/// The exit code of a run that is complete although workers were lost, which the others did without.
inline constexpr int kWithoutLostExit = 3;
/// As shells have it: the program could not be started.
inline constexpr int kExecFailed = 127;

/// Throws Error: a child cannot be started, for what errno says. Resources where a limit forbids it.
[[noreturn]] void fail_to_start(const std::string& what);

/// SIGINT, SIGTERM or SIGHUP.
bool is_stop_signal(int number);

/// Stop signals that a launcher got: the first asks for an orderly end, the second ends everything now.
class StopCount {
 public:
  /// Whether it counts: not if it is the first once more (kSameStop).
  bool take(std::chrono::steady_clock::time_point now);
  int count() const { return count_; }

 private:
  int count_ = 0;
  std::chrono::steady_clock::time_point first_;
};

/// Turns signals into bytes of a pipe while it lives: the stop signals, but for ignored ones (nohup),
/// SIGUSR1, and SIGCHLD, which only wakes. SIGPIPE is ignored meanwhile: that nobody reads a launcher's lines
/// any more ends no job. Handlers, not a signalfd: libraries may have threads that don't block the signals.
/// One at a time; on the main thread.
class SignalPipe {
 public:
  SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  ~SignalPipe();

  /// The signals that came, oldest first; waits for the first, or an event of `more`, at most until `limit`.
  std::vector<int> wait(std::optional<std::chrono::steady_clock::time_point> limit,
                        std::span<pollfd> more) const;

 private:
  void install(int number, void (*handler)(int));

  control::Fd ends_[2];
  std::vector<std::pair<int, struct sigaction>> before_;
};

/// In a child after fork: ends with `parent`, at once if that is gone already.
void end_with_parent(pid_t parent);

/// In a child after fork: what exec would make of the signals that the process handles.
void handle_no_signal();

/// A null-terminated array of C strings, made before fork because nothing may be allocated after it.
class CStrings {
 public:
  explicit CStrings(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  CStrings(const CStrings&) = delete;
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// Of a status as wait() gives it:

bool is_without_lost(int status);
/// The run was interrupted in order.
bool is_orderly_stop(int status);
/// An end that is usually the consequence of another rank's.
bool is_echo(int status);
/// 128 + the signal, or 75 (peer lost) for SIGKILL; else the exit code.
int code_of(int status);
/// "was killed by signal 9 (Killed)...", "failed with exit code 65 (data)".
std::string in_words(int status);

}  // namespace taxon::launch
