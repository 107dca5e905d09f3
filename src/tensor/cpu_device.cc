#include "tensor/cpu_device.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "task/team.h"

namespace taxon::tensor {

/// One stream: its threads, or its turns on the executor's.
class CpuDevice::Worker {
 public:
  struct Options {
    const char* name;
    std::vector<int> cores;
    bool keeps_team_apart = false;
    SpeedEmulator::Options speed_emulator = {};
    int most = 1;  // threads; 0: the executor's own
  };
  Worker(task::Executor& executor, Options options)
      : executor_(executor), options_(std::move(options)), slow_motion_here_(options_.speed_emulator) {
    if (options_.most == 0) place();
  }
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_all();
    for (Thread& thread : threads_) thread.thread.join();
  }
  void push(KernelHandle& job) {
    if (options_.most == 0) return executor_.post([this, &job] { run(&job, slow_motion_here_); });
    {
      std::lock_guard lock(mutex_);
      // First, as it may fail: a job that waits then is the others'.
      if (static_cast<int>(jobs_.size()) + 1 > idle_ && static_cast<int>(threads_.size()) < options_.most)
        grow();
      jobs_.push_back(&job);
    }
    ready_.notify_one();
  }
  /// If the caller is one of its threads. Libraries' threads may reach milestones, too.
  void catch_up() {
    if (SpeedEmulator* mine = emulator_here()) mine->catch_up();
  }

 private:
  struct Thread {
    explicit Thread(SpeedEmulator::Options speed_emulator) : slow_motion(std::move(speed_emulator)) {}
    SpeedEmulator slow_motion;
    std::thread thread;
  };
  SpeedEmulator* emulator_here() {
    if (options_.most == 0) return std::this_thread::get_id() == here_ ? &slow_motion_here_ : nullptr;
    std::lock_guard lock(mutex_);
    for (Thread& thread : threads_)
      if (std::this_thread::get_id() == thread.thread.get_id()) return &thread.slow_motion;
    return nullptr;
  }
  // Under the lock.
  void grow() {
    Thread& thread = threads_.emplace_back(options_.speed_emulator);
    try {
      thread.thread = std::thread([this, &thread] { loop(thread.slow_motion); });
    } catch (...) {
      threads_.pop_back();
      if (threads_.empty()) throw;
    }
  }
  void loop(SpeedEmulator& slow_motion) {
    pthread_setname_np(pthread_self(), options_.name);
    place();
    for (;;) {
      KernelHandle* job;
      {
        std::unique_lock lock(mutex_);
        ++idle_;
        ready_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
        --idle_;
        if (jobs_.empty()) return;
        job = jobs_.front();
        jobs_.pop_front();
      }
      run(job, slow_motion);
    }
  }
  void run(KernelHandle* job, SpeedEmulator& slow_motion) {
    const Instant began = executor_.now();
    slow_motion.begin();
    std::exception_ptr error = job->run_body();
    slow_motion.catch_up();
    // Moved: its only owner is the executor's thread, which reads it and lets it go. Posted from that thread
    // too: behind the body's milestones.
    executor_.post([job, began, error = std::move(error)]() mutable {
      job->began(began);
      job->ended(std::move(error));
    });
  }
  void place() {
    if (options_.cores.empty()) return;
    if (options_.keeps_team_apart) task::keep_team_to(options_.cores);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int core : options_.cores) CPU_SET(static_cast<unsigned>(core), &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a refusal only costs speed
  }

  task::Executor& executor_;
  const Options options_;
  const std::thread::id here_ = std::this_thread::get_id();  // the executor's, which starts kernels
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<KernelHandle*> jobs_;  // protected by mutex_, as are
  bool stopping_ = false;           // these
  int idle_ = 0;
  std::deque<Thread> threads_;
  SpeedEmulator slow_motion_here_;  // of the executor's thread
};

CpuDevice::CpuDevice(task::Executor& executor, CpuDeviceOptions options)
    : executor_(executor), options_(std::move(options)) {}
CpuDevice::~CpuDevice() = default;

CpuDevice::Worker& CpuDevice::worker(Stream stream) {
  auto& slot = stream == Stream::Compute ? compute_ : data_;
  if (slot) return *slot;
  const bool computes = stream == Stream::Compute;
  slot = std::make_unique<Worker>(
      executor_,
      Worker::Options{.name = computes ? "taxon-compute" : "taxon-data",
                      .cores = options_.cores,
                      .keeps_team_apart = computes && options_.keeps_team_apart,
                      .speed_emulator = computes ? options_.speed_emulator : SpeedEmulator::Options{},
                      .most = computes && options_.computes_here ? 0 : threads(stream)});
  return *slot;
}

int CpuDevice::threads(Stream stream) const {
  return stream == Stream::Data ? std::max(1, options_.data_threads) : 1;
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
