#pragma once

#include <array>
#include <deque>
#include <vector>

#include "sim/device_memory.h"
#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/fidelity.h"
#include "sim/thread.h"
#include "sim/timeline.h"
#include "tensor/device.h"

namespace taxon::sim {

/// What a device is made of.
struct DeviceOptions {
  Fidelity fidelity = Fidelity::Exact;
  double flops = 0;                      // per second
  Duration launch{0};                    // see plan::DeviceModel
  const DeviceMemory* memory = nullptr;  // outlives the device
  Target target;                         // whose it is
  Seat compute;                          // of the compute stream's thread
  Seat other;                            // of each of the others'
  ResourceTimeline* timeline = nullptr;
};

/// The virtual family of the door of work. A kernel takes the longer of flops / speed and bytes / bandwidth,
/// or its measured time, and never less than its last mark, at its stream's full speed; a straggler's
/// factor holds for the whole kernel in whose time it starts. Each stream is a thread. Bodies run when their
/// kernel starts; marks fire at their offsets, whatever the body says, or at the end. Where a kernel comes to
/// an idle stream, all of that is `launch` later, but on the exchange stream, which is the rank's own thread.
/// A kernel that takes no time ends at once there.
class VirtualDevice final : public tensor::Device {
 public:
  VirtualDevice(EventQueue& queue, Faults& faults, DeviceOptions options);
  ~VirtualDevice() override;
  VirtualDevice(const VirtualDevice&) = delete;

  void start(tensor::Stream stream, tensor::KernelHandle& job) override;
  void mark(tensor::KernelHandle&, int) override {}
  task::Executor& executor() override { return queue_; }

  /// For which kernels of the stream were at work.
  Duration busy(tensor::Stream stream) const;
  /// On which the stream's kernels run; in a real rank, that of the exchange stream communicates too.
  Thread& thread(tensor::Stream stream);

 private:
  /// One stream.
  class Worker final : public ThreadUser {
   public:
    Worker(VirtualDevice& device, tensor::Stream stream, Seat seat)
        : device_(device), stream_(stream), thread_(device.queue_, seat) {}
    ~Worker();
    void push(tensor::KernelHandle& job);
    std::optional<Duration> go_on() override;
    Duration busy() const { return busy_; }
    Thread& thread() { return thread_; }

   private:
    struct Mark {
      Duration at;
      int index;
    };
    struct Queued {
      tensor::KernelHandle* job;
      Instant came;
    };
    void begin(Queued next);
    /// At full speed, until the next mark or the end.
    Duration next_stretch();
    Duration launch_time(Instant came) const;
    void end();

    VirtualDevice& device_;
    const tensor::Stream stream_;
    Thread thread_;
    std::deque<Queued> queue_;
    tensor::KernelHandle* running_ = nullptr;
    Instant came_;
    std::exception_ptr error_;
    Duration length_{0}, reached_{0};
    std::vector<Mark> marks_;  // of the running job, by time
    std::size_t next_mark_ = 0;
    Instant began_;
    Duration busy_{0};
  };
  Worker& stream(tensor::Stream stream) { return streams_[static_cast<std::size_t>(stream)]; }
  Duration time_of(const tensor::Kernel& kernel, double factor) const;

  EventQueue& queue_;
  Faults& faults_;
  DeviceOptions options_;
  std::array<Worker, 3> streams_;
};

}  // namespace taxon::sim
