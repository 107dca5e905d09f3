#pragma once

#include <memory>
#include <vector>

#include "tensor/device.h"
#include "tensor/speed_emulator.h"

namespace taxon::tensor {

struct CpuDeviceOptions {
  /// Cores that the compute thread (and the threads that libraries start from it) may use; empty: all of the
  /// process.
  std::vector<int> compute_cores;
  SpeedEmulator::Options speed_emulator = {};  // of the compute stream
  int team = 1;                                // see Device::team()
  int data_threads = 1;                        // of the data stream, at most
};

/// The real device: one long-lived thread for the compute stream (libtorch's autograd and OpenMP keep state
/// per thread) and one or more for the data stream. Kernels of the exchange stream run on the executor's own
/// thread at once: they are short, and their bytes are warm in its cache. Threads start with the first kernel
/// of their stream that finds none idle, and end with the device.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(task::Executor& executor, CpuDeviceOptions options = {});
  ~CpuDevice() override;
  void start(Stream stream, KernelHandle& job) override;
  void mark(KernelHandle& job, int index) override;
  task::Executor& executor() override { return executor_; }
  int threads(Stream stream) const override;
  int team() const override { return options_.team; }

 private:
  class Worker;
  Worker& worker(Stream stream);
  task::Executor& executor_;
  CpuDeviceOptions options_;
  std::unique_ptr<Worker> compute_, data_;
};

}  // namespace taxon::tensor
