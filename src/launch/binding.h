#pragma once

#include <optional>
#include <vector>

namespace taxon::launch {

/// Which cores a rank should keep to: its share of those that the ranks of its host may use, so that no two
/// compute threads ever wait for one core while another is idle. `allowed`: the cores that each rank of the
/// machine may use, in the order of the ranks; `me`: this rank's place among them; `threads`: its compute
/// threads. Empty: all that it may use already, since it is alone, its launcher bound the ranks, or they
/// compute with more threads than there are cores.
std::vector<int> share_of_cores(const std::vector<std::vector<int>>& allowed, int me, int threads);

/// How many of the ranks may use a core that rank `me` may use, itself included.
int ranks_on_cores_of(const std::vector<std::vector<int>>& allowed, int me);

/// Keeps the calling thread, and those that it starts from now on, to `cores`. A refusal only costs speed.
void bind_to(const std::vector<int>& cores);

/// What the calling thread asks of the system's scheduler while it communicates, until this object's end. A
/// refusal only costs speed.
class CommunicatingThread {
 public:
  /// A core soon after it wakes, for short turns: it runs for microseconds, and a thread that computes would
  /// finish its turn of milliseconds first. Nobody gets more processor time by it, and threads that it starts
  /// are as others. Before Linux 6.12 all turns are alike. `core`: the one that it keeps to, as do threads
  /// that it starts; none: it stays where it may be.
  explicit CommunicatingThread(std::optional<int> core);
  ~CommunicatingThread();
  CommunicatingThread(const CommunicatingThread&) = delete;

 private:
  std::vector<int> cores_;  // of before; empty: they have not changed
};

}  // namespace taxon::launch
