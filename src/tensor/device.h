#pragma once

#include <string>
#include <vector>

#include "base/unique_function.h"
#include "base/view.h"
#include "task/event.h"
#include "task/task.h"

namespace taxon::tensor {

/// What a kernel costs, for the virtual world and for reports.
struct Cost {
  double flops = 0;
  std::size_t bytes = 0;  // read and written
  Duration measured{0};   // if known: takes the place of the figures above
};

/// Handed to a kernel's body: says that milestone `index` is reached. Any thread; each index at most once.
class Milestones {
 public:
  virtual ~Milestones() = default;
  virtual void reached(int index) = 0;
};

/// A piece of arithmetic. `body` runs on the device; it touches no coroutine state and does not block on
/// other kernels. Named in a statement of its own, never built inside a co_await expression (GCC 12):
/// `co_await run(device, pending, stream, std::move(kernel));`.
struct Kernel {
  std::string name;
  Cost cost;
  UniqueFunction<void(Milestones&)> body;
  int marks = 0;  // milestones 0 .. marks - 1; none: nobody awaits those that the body reaches
  /// When each is reached in the virtual world: from the start, or as a share of the kernel's time. Both
  /// empty: at the end.
  std::vector<Duration> mark_offsets;
  std::vector<double> mark_shares;
  /// Where payloads are phantoms, bodies that touch them don't run. Always: the body touches real memory
  /// only.
  enum class Body { OnPayload, Always } runs = Body::OnPayload;
};

/// Kernels of one stream begin in the order in which they were started, and run one after the other unless
/// the device has several threads for it; streams run beside each other.
enum class Stream {
  Compute,   // forward, backward, local updates: may take long
  Exchange,  // sums, casts, encoding: short pieces that the communication waits for
  Data,      // reading and preparing batches
};

class Device;

/// A kernel that was started. Lives in the caller's frame and must outlive its end: a kernel can't be
/// cancelled, so every path, also the one of an exception, awaits finished() before the job dies (checked).
class KernelHandle final : private Milestones {
 public:
  /// Starts `kernel` on `stream`. `pending` lists the waiting coroutines.
  KernelHandle(Device& device, task::PendingOps& pending, Stream stream, Kernel kernel);
  ~KernelHandle() override;
  KernelHandle(const KernelHandle&) = delete;

  /// Awaitable: milestone `index` was reached, or the kernel ended without reaching it. Throws the body's
  /// error, or the cancellation's.
  task::Event::Waiter at(int index, std::string subject = {});
  /// Task: the kernel ended. Also waits when the rank was cancelled; throws only the body's error.
  task::Task<void> finished();
  bool done() const { return done_; }

  const Kernel& kernel() const { return kernel_; }

  /// For devices: runs the body on the calling thread; then, from the executor's thread, `ended` must be
  /// called once.
  std::exception_ptr run_body();
  void ended(std::exception_ptr error);
  /// For devices: milestone `index`, from the executor's thread.
  void fire(int index);
  /// For devices: the kernel's turn on its stream has come only now. From the executor's thread.
  void began(Instant now) { since_ = now; }
  /// Since when it is at work: as it was started, unless its device said another time.
  Instant since() const { return since_; }

 private:
  void reached(int index) override;

  Device& device_;
  Kernel kernel_;
  std::vector<std::unique_ptr<task::Event>> marks_;
  task::PendingOps uncancelled_;  // finished() must wait whatever happens to the rank
  task::Event finished_;
  Instant since_;
  bool done_ = false;
};

/// The door of work. Executor's thread only.
class Device {
 public:
  virtual ~Device() = default;
  /// Called by Job. The job stays valid until it ended.
  virtual void start(Stream stream, KernelHandle& job) = 0;
  /// Called by Job::reached on whatever thread the body runs: hands the milestone to the executor's thread.
  virtual void mark(KernelHandle& job, int index) = 0;
  virtual task::Executor& executor() = 0;
  /// How many of the stream's kernels may run beside each other: one, but for the data stream.
  virtual int threads(Stream) const { return 1; }
};

/// Runs `kernel` and waits for its end. `device` and `pending` outlive the task.
task::Task<void> run(Device& device, task::PendingOps& pending, Stream stream, Kernel kernel);

}  // namespace taxon::tensor
