#include "net/grpc/events.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"

namespace taxon::net {

Events::Events() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) throw Error(ErrorKind::Transport, "eventfd failed: too many open files? Raise ulimit -n.");
}

Events::~Events() { ::close(fd_); }

bool Events::push(Event event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  events_.push_back(std::move(event));
  any_.store(true, std::memory_order_release);
  if (std::exchange(asleep_, false)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(fd_, &one, sizeof one);  // full means readable anyway
  }
  return true;
}

std::vector<Event> Events::take() {
  if (!any_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  any_.store(false, std::memory_order_relaxed);
  return std::exchange(events_, {});
}

bool Events::arm() {
  const std::lock_guard lock(mutex_);
  asleep_ = events_.empty();
  return asleep_;
}

void Events::disarm() {
  const std::lock_guard lock(mutex_);
  asleep_ = false;
  std::uint64_t count;
  [[maybe_unused]] const auto drained = read(fd_, &count, sizeof count);
}

void Events::wait(std::chrono::milliseconds limit) {
  if (arm()) {
    pollfd readable{fd_, POLLIN, 0};
    ::poll(&readable, 1, static_cast<int>(limit.count()));
  }
  disarm();
}

std::vector<Event> Events::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  return std::exchange(events_, {});
}

}  // namespace taxon::net
