#pragma once

#include <array>
#include <deque>
#include <vector>

#include "sim/event_queue.h"
#include "sim/faults.h"
#include "sim/fidelity.h"
#include "sim/machine.h"
#include "sim/timeline.h"
#include "tensor/device.h"

namespace taxon::sim {

/// What a device is made of.
struct DeviceOptions {
  Fidelity fidelity = Fidelity::Exact;
  plan::DeviceModel model;
  Target target;               // whose it is
  Machine* machine = nullptr;  // null: it waits for no core
  std::size_t host = 0;        // on the machine
  double cores = 1;            // that a kernel of the compute lane uses at full speed
  Timeline* timeline = nullptr;
};

/// The virtual family of the door of work. A kernel takes the longer of flops / speed and bytes / bandwidth,
/// or its measured time, and never less than its last mark; a straggler's factor holds for the whole kernel
/// in whose time it starts. Lanes work beside each other, kernels of one lane one after the other; kernels of
/// the exchange and data lanes use one core. Bodies run when their kernel starts; marks fire at their
/// offsets, whatever the body says, or at the end. A kernel that takes no time on an idle lane ends at once.
class VirtualDevice final : public tensor::Device {
 public:
  VirtualDevice(EventQueue& queue, Faults& faults, DeviceOptions options);
  ~VirtualDevice() override;
  VirtualDevice(const VirtualDevice&) = delete;

  void start(tensor::Lane lane, tensor::Job& job) override;
  void mark(tensor::Job&, int) override {}
  task::Executor& executor() override { return queue_; }

  /// For which the lane has worked.
  Duration busy(tensor::Lane lane) const;

 private:
  /// One lane.
  class Worker final : public Work, public Action {
   public:
    Worker(VirtualDevice& device, tensor::Lane lane, double cores)
        : device_(device), lane_(lane), cores_(cores) {}
    ~Worker() override;
    void push(tensor::Job& job);
    void reached() override;
    void happen(std::uint64_t) override { reached(); }
    Duration busy() const { return busy_; }

   private:
    struct Mark {
      Duration at;
      int index;
    };
    struct Queued {
      tensor::Job* job;
      Instant came;
    };
    /// Starts jobs until one takes time or there is none.
    void start_next();
    bool begin(Queued next);
    void wait_until(Duration at);
    void end();

    VirtualDevice& device_;
    const tensor::Lane lane_;
    const double cores_;
    std::deque<Queued> queue_;
    tensor::Job* running_ = nullptr;
    Instant came_;
    bool working_ = false;  // running_ is set, or its end is being told
    std::exception_ptr error_;
    Duration length_{0}, reached_{0}, next_{0};
    std::vector<Mark> marks_;  // of the running job, by time
    std::size_t next_mark_ = 0;
    Instant began_;
    Duration busy_{0};
  };
  Duration time_of(const tensor::Kernel& kernel, double factor) const;

  EventQueue& queue_;
  Faults& faults_;
  DeviceOptions options_;
  std::array<Worker, 3> lanes_;
};

}  // namespace taxon::sim
