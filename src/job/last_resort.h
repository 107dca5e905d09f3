#pragma once

#include <mutex>

namespace taxon::job {

/// Ends this process some seconds after a fatal event, by SIGALRM, if a task still runs that the event should
/// have unwound. Otherwise the process's one alarm is left to the program; what that had set is lost when
/// this is armed. Any thread.
class LastResort {
 public:
  /// Takes SIGALRM's handler.
  void install();
  /// A fatal event came; it stays.
  void on_loss();
  /// Whether a task runs. When it runs no more, no alarm is left behind.
  void set_running(bool runs);
  /// Whether that task waits for what the program computes, however long it takes.
  void set_waiting_for_program(bool waits);

 private:
  void settle();

  std::mutex mutex_;  // held over alarm() too: whoever says that nothing runs must find no alarm afterwards
  bool lost_ = false, runs_ = false, waits_for_program_ = false;
  bool armed_ = false;
};

}  // namespace taxon::job
