#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "side/side.h"

namespace taxon::bench {

/// The tensors of a transfer benchmark: float32, every element a function of its place, and one of them,
/// whose place depends on the tensor's number, the largest. A consumer that finds the right maximum has seen
/// the element that is new; check_all() compares every element.
class TensorContent {
 public:
  explicit TensorContent(std::size_t elements) : elements_(elements) {}
  void fill(float* data) const;
  /// From number `before` to `number`; 0 is what fill() made.
  void stamp(float* data, std::uint64_t before, std::uint64_t number) const;
  float largest(std::uint64_t number) const;
  bool check_all(const float* data, std::uint64_t number) const;
  std::size_t elements() const { return elements_; }

 private:
  std::size_t place(std::uint64_t number) const;
  std::size_t elements_;
};

/// The largest of `count` elements: what the receiver does with a tensor. As fast as the memory.
float max_of(const float* data, std::size_t count);

/// What the receiver does: finds the maximum, or in the first kFull tensors compares everything.
class Consumer {
 public:
  static constexpr std::uint64_t kFull = 4;
  void prepare(const TensorContent& content) { content_ = content; }
  void begin() { right_ = true; }
  /// The largest element.
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

/// Warms up, runs the blocks and says in `sums`: CPU seconds, bytes copied in user space and by the kernel,
/// of all blocks.
Outcome measure(TensorSide& side, const Request& request);

}  // namespace taxon::bench
