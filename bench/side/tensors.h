#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "side/side.h"

namespace taxon::bench {

/// A pattern of float32 that differs from number to number in every element. Multiples of 1/512 below 2.
void write_pattern(float* data, std::size_t count, std::uint64_t number);

/// The tensors of a transfer benchmark: a pattern, and one element, whose place depends on the tensor's
/// number, the largest. A producer writes all of it, and a consumer compares all of it while it looks for the
/// largest.
class TensorContent {
 public:
  explicit TensorContent(std::size_t elements) : elements_(elements) {}
  /// What a producer does: writes every element. As fast as the memory.
  void write(float* data, std::uint64_t number) const;
  /// What a consumer does: reads every element once. The largest, if all of them are right. As fast as the
  /// memory.
  std::optional<float> consume(const float* data, std::uint64_t number) const;
  float largest(std::uint64_t number) const;
  std::size_t elements() const { return elements_; }

 private:
  std::size_t place(std::uint64_t number) const;
  std::size_t elements_;
};

/// The sum of the patterns of some numbers.
class PatternSum {
 public:
  PatternSum();
  void add(std::uint64_t number);
  /// Compares every element. As fast as the memory.
  bool is(const float* data, std::size_t count) const;

 private:
  std::vector<float> sums_;  // one period and a piece more
};

/// Tensors that came. On one thread at a time.
class Consumer {
 public:
  void prepare(const TensorContent& content) { content_ = content; }
  void begin() { right_ = true; }
  /// The largest element; 0 if the tensor is wrong.
  float take(const float* data, std::uint64_t number);
  void fail() { right_ = false; }
  bool right() const { return right_; }

 private:
  TensorContent content_{1};
  bool right_ = true;
};

/// What this process has used and copied so far.
struct Expenses {
  double cpu_seconds = 0;
  double user_copies = 0;    // bytes; 0 without bench_count_copies
  double kernel_copies = 0;  // bytes
  static Expenses now();
  Expenses operator-(const Expenses& before) const;
};

/// Transfers of one side: rank 0 sends, rank 1 consumes.
class TensorSide {
 public:
  virtual ~TensorSide() = default;
  /// Collective: the next transfers have `content`, by `variant`. Throws std::runtime_error for unknown
  /// variants. Once for each request.
  virtual void prepare(const TensorContent& content, const std::string& variant) = 0;
  /// Collective: `count` tensors, numbered from `first`, sent and consumed one after the other; returns when
  /// all of them are. Seconds at this rank.
  virtual double run(std::uint64_t first, std::uint64_t count) = 0;
  /// The receiver's: what the last run() got.
  virtual bool right() const = 0;
  virtual std::string detail() const { return {}; }
};

/// Transfers before anything is timed.
inline constexpr std::uint64_t kWarmUp = 4;

/// Warms up, runs the blocks and says in `sums`: CPU seconds, bytes copied in user space and by the kernel,
/// of all blocks.
Outcome measure(TensorSide& side, const Request& request);

}  // namespace taxon::bench
