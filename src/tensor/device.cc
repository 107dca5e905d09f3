#include "tensor/device.h"

namespace taxon::tensor {

KernelHandle::KernelHandle(Device& device, task::PendingOps& pending, Stream stream, Kernel kernel)
    : device_(device),
      kernel_(std::move(kernel)),
      finished_(device.executor(), uncancelled_),
      since_(device.executor().now()) {
  marks_.reserve(static_cast<std::size_t>(kernel_.marks));
  for (int i = 0; i < kernel_.marks; ++i)
    marks_.push_back(std::make_unique<task::Event>(device.executor(), pending));
  device_.start(stream, *this);
}

KernelHandle::~KernelHandle() { TAXON_CHECK(done_, "kernel '", kernel_.name, "' is still running"); }

task::Event::Waiter KernelHandle::at(int index, std::string subject) {
  TAXON_CHECK(index >= 0 && index < kernel_.marks, "mark ", index, " of ", kernel_.marks);
  return marks_[static_cast<std::size_t>(index)]->wait(kernel_.name, std::move(subject));
}

task::Task<void> KernelHandle::finished() { co_await finished_.wait(kernel_.name); }

std::exception_ptr KernelHandle::run_body() {
  try {
    if (kernel_.body) kernel_.body(*this);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void KernelHandle::ended(std::exception_ptr error) {
  // Waiters of the milestones resume first; none of them may end the job's frame, which still awaits
  // finished(): the job is not done before they are through.
  for (auto& mark : marks_) error ? mark->fail(error) : mark->set();
  done_ = true;
  error ? finished_.fail(error) : finished_.set();
}

void KernelHandle::fire(int index) { marks_[static_cast<std::size_t>(index)]->set(); }

void KernelHandle::reached(int index) {
  if (kernel_.marks == 0) return;
  TAXON_CHECK(index >= 0 && index < kernel_.marks, "mark ", index, " of ", kernel_.marks);
  device_.mark(*this, index);
}

task::Task<void> run(Device& device, task::PendingOps& pending, Stream stream, Kernel kernel) {
  KernelHandle job(device, pending, stream, std::move(kernel));
  co_await job.finished();
}

}  // namespace taxon::tensor
