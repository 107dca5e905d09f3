#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launch/control_groups.h"

namespace taxon::launch {

/// What threads did in some time. Seconds, over all of them.
struct ThreadTime {
  double running = 0;  // on a core
  double queued = 0;   // ready to run, while others had the cores or a quota was used up
};

/// The share of the time in which the threads wanted a core and waited for one; 0 if none wanted any.
double queued_share(const ThreadTime& time);
/// "threads waited 34 % of the time for a core".
std::string describe_pressure(double share);

/// Sees whether this process's threads get the cores that they want, as the kernel counts it
/// (/proc/self/task/*/schedstat; a quota's pauses count as waiting).
class CorePressure {
 public:
  /// `tasks`: the folder of the process's threads.
  explicit CorePressure(std::string tasks = "/proc/self/task", ControlGroups groups = {});
  /// Of the threads that are there, since the last call or since the constructor. Nothing: the kernel does
  /// not count it.
  std::optional<ThreadTime> take();
  /// The share of that in which they waited.
  std::optional<double> take_share();
  /// As far as others had the cores. Nothing as well if a quota has paused this process since the last call
  /// or since the constructor: the kernel does not count the two apart.
  std::optional<double> take_share_of_others();

 private:
  const std::string tasks_;
  const ControlGroups groups_;
  std::uint64_t pauses_ = 0;
  std::map<std::string, ThreadTime> seen_;  // by thread, since it began
};

/// Keeps `threads` threads busy for about so many seconds and returns the share of the time in which they
/// waited for a core. Nothing: the kernel does not count it.
std::optional<double> probe_pressure(double seconds, int threads);

}  // namespace taxon::launch
