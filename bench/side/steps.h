#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "side/tensors.h"

namespace taxon::bench {

/// The variables of a model, in elements of float32: what a worker pushes gradients of and pulls. Empty for
/// models that are not in the table: AlexNet, VGGNet-16, Inception-v3, LSTM, GRU, FCN-5, each with as many
/// variables and bytes as in the evaluation of "RPC Considered Harmful" (arXiv 1805.08430).
std::vector<std::size_t> variables_of(std::string_view model);

/// sum += values. As fast as the memory.
void add_to(float* sum, const float* values, std::size_t count);

/// What the worker knows of the variables: they begin at zero, and every step adds its gradient, which is
/// write_pattern() of the step's number: all of it is written in every step, and sums of ten thousand are
/// exact.
class PulledCheck {
 public:
  void begin(std::span<const std::size_t> elements);
  /// Before the variables of step `number` come.
  void expect(std::uint64_t number) { sum_.add(number); }
  /// Uses variable `v`: reads and compares every element. Any thread, but one at a time for a variable.
  void use(std::size_t v, const float* data);
  void fail() { right_ = false; }
  bool right() const { return right_; }

 private:
  std::vector<std::size_t> elements_;
  PatternSum sum_;
  std::atomic<bool> right_{true};
};

/// A run of steps: number `first` and the `count - 1` after it. Forward and backward passes are replayed.
struct StepRun {
  std::uint64_t first = 1, count = 1;
  std::chrono::microseconds compute{0};
};

/// Training with one parameter server as one side does it: rank 0 works, rank 1 serves. A step is compute,
/// then all gradients to the server, which adds them to its variables, and all variables back.
class StepSide {
 public:
  virtual ~StepSide() = default;
  /// Collective: variables of so many elements, all zero, by `way`. Throws std::runtime_error for unknown
  /// ways.
  virtual void prepare(const std::vector<std::size_t>& variables, const std::string& way) = 0;
  /// Collective. The worker's: seconds of each step; nothing at the server.
  virtual std::vector<double> run(const StepRun& run) = 0;
  /// The worker's: whether everything it pulled was right since prepare().
  virtual bool right() const = 0;
  virtual std::string detail() const { return {}; }
};

/// In place of forward and backward passes.
class Replay {
 public:
  /// Leaves the caches as a model's compute does, with its own data, and sleeps, but for the end. Returns
  /// when a compute that took just `compute` would have begun: a step's time is what has passed since then,
  /// also where that compute is shorter than filling the caches.
  std::chrono::steady_clock::time_point compute(std::chrono::microseconds compute);

 private:
  static constexpr std::size_t kBytes = std::size_t{128} << 20;  // more than a last-level cache has
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(kBytes / sizeof(std::uint64_t), 1);
  std::uint64_t sum_ = 0;  // read by nobody else
};

/// Answers requests, until they end, whose variant is WAY/MODEL/MICROSECONDS and whose bytes are the model's.
/// A model stays prepared as long as requests name it.
void serve_steps(CommandChannel& channel, StepSide& side);

}  // namespace taxon::bench
