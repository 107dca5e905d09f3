#pragma once

#include <chrono>
#include <functional>

namespace taxon::tensor {

/// Has the kernels of one thread take as long as they would on a slower machine, which this one plays: it
/// sleeps where that one would still be working. Used by that thread alone.
class SpeedEmulator {
 public:
  struct Options {
    /// Of the machine, for this thread: a kernel takes the thread's processor time over these. 0: as long as
    /// it takes here.
    double cores = 0;
    /// How many times as long the next kernel takes, at least 1; called once for each. Empty: once.
    std::function<double()> slowdown;
  };
  explicit SpeedEmulator(Options options) : options_(std::move(options)) {}

  /// A kernel begins.
  void begin();
  /// Returns when the slower machine would have come as far; to be called at milestones and at the end.
  void catch_up();

 private:
  using Clock = std::chrono::steady_clock;
  bool idle() const { return options_.cores <= 0 && !options_.slowdown; }

  Options options_;
  Clock::time_point began_;
  std::chrono::nanoseconds processor_{0};  // of the thread when the kernel began
  Clock::duration slept_{0};
  double slowdown_ = 1;
};

}  // namespace taxon::tensor
