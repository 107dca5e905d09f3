#pragma once

#include <memory>

namespace taxon::launch {

/// How the threads of libtorch's kernels wait for their next work: they poll for some milliseconds, which
/// saves a wake-up for each parallel region and is a core lost to whoever else wants it; or they sleep.
enum class Waiting { Active, Passive };
const char* to_string(Waiting waiting);

/// Chooses it while the program runs. libgomp reads OMP_WAIT_POLICY and GOMP_SPINCOUNT only when it is
/// loaded; but its threads poll no longer than a hundred times once it manages more of them than there are
/// cores (gomp_throttled_spin_count_var). So Passive is a team of one thread more than cores that does
/// nothing but exist, and Active is its end. Another OpenMP than libgomp does not notice.
class OpenMpWaiting {
 public:
  /// `cores`: those that the process might use when it began, which is what libgomp counted.
  explicit OpenMpWaiting(int cores);
  ~OpenMpWaiting();
  OpenMpWaiting(const OpenMpWaiting&) = delete;

  /// Whoever started the process has chosen already (OMP_WAIT_POLICY, GOMP_SPINCOUNT).
  static bool is_given();

  Waiting now() const { return ballast_ ? Waiting::Passive : Waiting::Active; }
  /// Returns what it is afterwards: Active where the system refuses more threads. Any thread, one at a time.
  Waiting set(Waiting waiting);

 private:
  class Ballast;
  const int threads_;  // of the ballast
  std::unique_ptr<Ballast> ballast_;
};

}  // namespace taxon::launch
