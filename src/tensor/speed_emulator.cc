#include "tensor/speed_emulator.h"

#include <ctime>
#include <thread>

namespace taxon::tensor {
namespace {

std::chrono::nanoseconds processor_time() {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

}  // namespace

void SpeedEmulator::begin() {
  if (idle()) return;
  slowdown_ = options_.slowdown ? options_.slowdown() : 1;
  slept_ = {};
  began_ = Clock::now();
  processor_ = processor_time();
}

void SpeedEmulator::catch_up() {
  if (idle()) return;
  const Clock::time_point now = Clock::now();
  std::chrono::duration<double> work = now - began_ - slept_;
  if (options_.cores > 0) work = (processor_time() - processor_) / options_.cores;
  std::this_thread::sleep_until(began_ + std::chrono::duration_cast<Clock::duration>(work * slowdown_));
  slept_ += Clock::now() - now;
}

}  // namespace taxon::tensor
