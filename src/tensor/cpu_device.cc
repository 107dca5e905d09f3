#include "tensor/cpu_device.h"

#include <pthread.h>
#include <sched.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace taxon::tensor {

class CpuDevice::Worker {
 public:
  Worker(task::Executor& executor, const std::vector<int>& cores, const char* name,
         SpeedEmulator::Options speed_emulator)
      : executor_(executor),
        cores_(cores),
        name_(name),
        slow_motion_(std::move(speed_emulator)),
        thread_([this] { loop(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_one();
    thread_.join();
  }
  void push(KernelHandle& job) {
    {
      std::lock_guard lock(mutex_);
      jobs_.push_back(&job);
    }
    ready_.notify_one();
  }
  /// If the caller is its thread. Libraries' threads may reach milestones, too.
  void catch_up() {
    if (std::this_thread::get_id() == thread_.get_id()) slow_motion_.catch_up();
  }

 private:
  void loop() {
    pthread_setname_np(pthread_self(), name_);
    place();
    for (;;) {
      KernelHandle* job;
      {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        job = jobs_.front();
        jobs_.pop_front();
      }
      slow_motion_.begin();
      std::exception_ptr error = job->run_body();
      slow_motion_.catch_up();
      // Moved: its only owner is the executor's thread, which reads it and lets it go.
      executor_.post([job, error = std::move(error)]() mutable { job->ended(std::move(error)); });
    }
  }
  void place() {
    if (cores_.empty()) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int core : cores_) CPU_SET(static_cast<unsigned>(core), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a refusal only costs speed
  }

  task::Executor& executor_;
  const std::vector<int> cores_;
  const char* const name_;
  SpeedEmulator slow_motion_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<KernelHandle*> jobs_;  // protected by mutex_
  bool stopping_ = false;           // protected by mutex_
  std::thread thread_;              // last: it starts when everything else exists
};

CpuDevice::CpuDevice(task::Executor& executor, CpuDeviceOptions options)
    : executor_(executor), options_(std::move(options)) {}
CpuDevice::~CpuDevice() = default;

CpuDevice::Worker& CpuDevice::worker(Stream stream) {
  auto& slot = stream == Stream::Compute ? compute_ : data_;
  if (slot) return *slot;
  slot = stream == Stream::Compute ? std::make_unique<Worker>(executor_, options_.compute_cores,
                                                              "taxon-compute", options_.speed_emulator)
                                   : std::make_unique<Worker>(executor_, options_.compute_cores, "taxon-data",
                                                              SpeedEmulator::Options{});
  return *slot;
}

void CpuDevice::start(Stream stream, KernelHandle& job) {
  if (stream != Stream::Exchange) return worker(stream).push(job);
  TAXON_CHECK(job.kernel().marks == 0,
              "a kernel of the exchange stream runs at once, so nobody could await its marks");
  job.ended(job.run_body());
}

void CpuDevice::mark(KernelHandle& job, int index) {
  if (compute_) compute_->catch_up();
  executor_.post([&job, index] { job.fire(index); });
}

}  // namespace taxon::tensor
