#include "control/poller.h"

#include <array>
#include <cerrno>

#include "base/check.h"
#include "base/failure.h"

namespace taxon::control {
namespace {

// A descriptor's number returns soon after it is closed; the upper half tells an event of its last owner
// apart.
std::uint64_t cookie(std::uint64_t id, int fd) { return (id << 32) | static_cast<std::uint32_t>(fd); }

}  // namespace

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid())
    throw Error(kind_of(errno, ErrorKind::Rendezvous), "epoll_create1 failed: " + errno_text(errno));
}

void Poller::watch(int fd, std::uint32_t events, Handler handler) {
  std::uint64_t id = next_id_++ & 0xffffffffU;
  TAXON_CHECK(entries_.find(fd) == entries_.end(), "descriptor ", fd, " is watched already");
  epoll_event event{};
  event.events = events;
  event.data.u64 = cookie(id, fd);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw Error(kind_of(errno, ErrorKind::Rendezvous), "epoll_ctl failed: " + errno_text(errno));
  entries_.emplace(fd, Entry{id, std::make_shared<Handler>(std::move(handler))});
}

void Poller::change(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = cookie(entries_.at(fd).id, fd);
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poller::forget(int fd) {
  if (entries_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Poller::wait(std::chrono::milliseconds limit) {
  std::array<epoll_event, 64> events;
  int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                     static_cast<int>(limit.count()));
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    int fd = static_cast<int>(event.data.u64 & 0xffffffffU);
    auto found = entries_.find(fd);
    if (found == entries_.end() || cookie(found->second.id, fd) != event.data.u64) continue;
    std::shared_ptr<Handler> handler = found->second.handler;  // lives while it runs, even if it is forgotten
    (*handler)(event.events);
  }
}

}  // namespace taxon::control
