#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"
#include "plan/plan.h"

namespace taxon::model {

at::ScalarType scalar_type(DType type);
/// What the plan says, where it leaves the choice: `automatic`.
at::MemoryFormat format_of(plan::MemoryFormat format, at::MemoryFormat automatic);

/// A batch of images (four dimensions of floating point) in that order in memory; Preserve, and anything
/// else than images: as it is.
at::Tensor arranged(const at::Tensor& batch, at::MemoryFormat format);

/// Whether tensors of one shape have the same strides, wherever these say anything.
bool lie_alike(const at::Tensor& one, const at::Tensor& other);

/// A stream of the framework's random numbers (Mersenne twister) while nobody draws from it.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed);
  std::vector<std::byte> bytes() const;
  /// Throws Error{Checkpoint} if `bytes` is not a state that bytes() gave.
  void restore(ConstView bytes);

  /// That of the framework's default generator, as it is; and back. For programs whose own thread draws from
  /// it, while that does not.
  static RandomStream of_framework();
  void give_to_framework() const;

 private:
  friend class FrameworkCall;
  RandomStream() = default;
  at::Tensor state_;
};

/// The framework's process-wide state as one model wants it, for the length of one call: the default
/// generator continues `stream`, its kernels use `threads` threads. Afterwards everything is as before. Calls
/// of several models in one process take turns, because they share the generator and OpenBLAS's thread count.
class FrameworkCall {
 public:
  FrameworkCall(RandomStream& stream, int threads);
  ~FrameworkCall();
  FrameworkCall(const FrameworkCall&) = delete;

 private:
  std::lock_guard<std::mutex> turn_;
  RandomStream& stream_;
  at::Tensor outer_state_;
  int outer_threads_;
  int outer_blas_threads_;
};

/// The framework's kernels on this thread use so many threads from now on.
void use_threads(int threads);

/// The framework's kernels on this thread use no other thread, for this object's life. For calls outside the
/// compute thread: OpenMP keeps a team for every thread that ever used one, counts them all, and lets none of
/// them wait for work actively once they are more than the cores, which makes every parallel kernel of the
/// compute thread wake its team through the kernel.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;

 private:
  int outer_threads_;
};

}  // namespace taxon::model
