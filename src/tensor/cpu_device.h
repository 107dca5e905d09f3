#pragma once

#include <memory>
#include <vector>

#include "tensor/device.h"
#include "tensor/speed_emulator.h"

namespace taxon::tensor {

struct CpuDeviceOptions {
  /// Cores that its threads (and those that libraries start from them) may use; empty: those of whoever
  /// starts a kernel.
  std::vector<int> cores;
  /// The OpenMP team of the compute stream keeps to one of them each: task::keep_team_to().
  bool keeps_team_apart = false;
  /// Kernels of the compute stream run on the executor's own thread, between its other work: for a rank that
  /// has nobody to talk to meanwhile. No thread waits for another's wake-up then.
  bool computes_here = false;
  SpeedEmulator::Options speed_emulator = {};  // of the compute stream
  int data_threads = 1;                        // of the data stream, at most
};

/// The real device: one long-lived thread for the compute stream (libtorch's autograd and OpenMP keep state
/// per thread), the executor's if the options say so, and one or more for the data stream. Kernels of the
/// exchange stream run on the executor's own thread at once: they are short, and their bytes are warm in its
/// cache. Threads start with the first kernel of their stream that finds none idle, and end with the device.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(task::Executor& executor, CpuDeviceOptions options = {});
  ~CpuDevice() override;
  void start(Stream stream, KernelHandle& job) override;
  void mark(KernelHandle& job, int index) override;
  task::Executor& executor() override { return executor_; }
  int threads(Stream stream) const override;

 private:
  class Worker;
  Worker& worker(Stream stream);
  task::Executor& executor_;
  CpuDeviceOptions options_;
  std::unique_ptr<Worker> compute_, data_;
};

}  // namespace taxon::tensor
