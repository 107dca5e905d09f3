#include "sim/device.h"

#include <algorithm>

namespace taxon::sim {
namespace {

Duration times(Duration time, double factor) {
  return factor == 1 ? time : from_picoseconds(static_cast<double>(time.count()) * factor);
}

}  // namespace

VirtualDevice::VirtualDevice(EventQueue& queue, Faults& faults, DeviceOptions options)
    : queue_(queue),
      faults_(faults),
      options_(std::move(options)),
      streams_{Worker(*this, tensor::Stream::Compute, options_.compute),
               Worker(*this, tensor::Stream::Exchange, options_.other),
               Worker(*this, tensor::Stream::Data, options_.other)} {}

VirtualDevice::~VirtualDevice() = default;

void VirtualDevice::start(tensor::Stream which, tensor::KernelHandle& job) { stream(which).push(job); }

Duration VirtualDevice::busy(tensor::Stream stream) const {
  return streams_[static_cast<std::size_t>(stream)].busy();
}

Thread& VirtualDevice::thread(tensor::Stream which) { return stream(which).thread(); }

Duration VirtualDevice::time_of(const tensor::Kernel& kernel, double factor) const {
  Duration time = kernel.cost.measured;
  if (time == Duration(0))
    time = from_seconds(std::max(kernel.cost.flops / options_.flops,
                                 static_cast<double>(kernel.cost.bytes) / options_.memory->bandwidth()));
  for (Duration offset : kernel.mark_offsets) time = std::max(time, offset);
  return times(time, factor);
}

VirtualDevice::Worker::~Worker() {
  TAXON_CHECK(running_ == nullptr && queue_.empty(), "kernels outlive their device");
}

void VirtualDevice::Worker::push(tensor::KernelHandle& job) {
  queue_.push_back({&job, device_.queue_.now()});
  thread_.push(*this);
}

void VirtualDevice::Worker::begin(Queued next) {
  tensor::KernelHandle& job = *next.job;
  came_ = next.came;
  const tensor::Kernel& kernel = job.kernel();
  const double factor = device_.faults_.device_factor(device_.options_.target, device_.queue_.now());
  running_ = &job;
  began_ = device_.queue_.now();
  job.began(began_);
  const Duration launch = times(launch_time(next.came), factor);
  length_ = launch + device_.time_of(kernel, factor);
  reached_ = Duration(0);
  marks_.clear();
  next_mark_ = 0;
  const auto marks = static_cast<std::size_t>(kernel.marks);
  for (std::size_t i = 0; i < std::min(kernel.mark_offsets.size(), marks); ++i)
    marks_.push_back({launch + times(kernel.mark_offsets[i], factor), static_cast<int>(i)});
  for (std::size_t i = 0; i < std::min(kernel.mark_shares.size(), marks); ++i)
    marks_.push_back(
        {launch + times(length_ - launch, std::clamp(kernel.mark_shares[i], 0.0, 1.0)), static_cast<int>(i)});
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.at < b.at; });
  error_ = nullptr;
  if (device_.options_.fidelity == Fidelity::Exact || kernel.runs == tensor::Kernel::Body::Always)
    error_ = job.run_body();
}

/// Who had to wait finds the stream's thread awake.
Duration VirtualDevice::Worker::launch_time(Instant came) const {
  const bool idle = came == began_ && stream_ != tensor::Stream::Exchange;
  return idle ? device_.options_.launch : Duration(0);
}

Duration VirtualDevice::Worker::next_stretch() {
  const Duration next = next_mark_ < marks_.size() ? marks_[next_mark_].at : length_;
  return next - std::exchange(reached_, next);
}

std::optional<Duration> VirtualDevice::Worker::go_on() {
  if (running_ == nullptr) {
    const Queued next = queue_.front();
    queue_.pop_front();
    begin(next);
  }
  for (;;) {
    while (next_mark_ < marks_.size() && marks_[next_mark_].at <= reached_)
      running_->fire(marks_[next_mark_++].index);
    if (next_mark_ == marks_.size() && reached_ == length_) break;
    if (Duration time = next_stretch(); time > Duration(0)) return time;
  }
  end();
  return {};
}

/// Tells the end; who hears of it may start kernels here, which wait.
void VirtualDevice::Worker::end() {
  busy_ += device_.queue_.now() - began_;
  if (ResourceTimeline* timeline = device_.options_.timeline; timeline != nullptr && length_ > Duration(0))
    timeline->add({device_.options_.target.rank, stream_, timeline->name_of(running_->kernel().name), came_,
                   began_, device_.queue_.now()});
  tensor::KernelHandle* job = std::exchange(running_, nullptr);
  job->ended(std::exchange(error_, nullptr));
}

}  // namespace taxon::sim
