#include "net/tcp/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.h"

namespace taxon::net::tcp {
namespace {

constexpr int kBacklog = 4096;
/// A millisecond of 1 Gbit/s: longer than a rank that is told of room takes to fill it.
constexpr int kUnsent = 128 << 10;

std::string reason() { return std::generic_category().message(errno); }

void set_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

SocketAddress SocketAddress::of(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* raw = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &raw) != 0)
    throw Error(ErrorKind::Transport, fmt::format("\"{}\" is no numeric address", address));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(raw, &freeaddrinfo);
  SocketAddress found;
  std::memcpy(&found.storage, list->ai_addr, list->ai_addrlen);
  found.size = list->ai_addrlen;
  return found;
}

Poller::Poller() : fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (fd_ < 0) throw Error(ErrorKind::Transport, "no epoll descriptor: " + reason());
}

Poller::~Poller() { close(fd_); }

void Poller::watch(int socket, Watched& owner) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &owner;
  if (epoll_ctl(fd_, EPOLL_CTL_ADD, socket, &event) != 0)
    throw Error(ErrorKind::Transport, "a socket can't be watched: " + reason());
}

void Poller::watch_level(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (epoll_ctl(fd_, EPOLL_CTL_ADD, descriptor, &event) != 0)
    throw Error(ErrorKind::Transport, "a descriptor can't be watched: " + reason());
}

void Poller::forget(int socket) { epoll_ctl(fd_, EPOLL_CTL_DEL, socket, nullptr); }

bool Poller::poll() {
  epoll_event events[kEvents];
  const int count = epoll_wait(fd_, events, kEvents, 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    auto* owner = static_cast<Watched*>(events[i].data.ptr);
    if (owner == nullptr) continue;
    any = true;
    owner->ready(events[i].events);
  }
  return any;
}

int listen_at(const std::string& address) {
  const SocketAddress where = SocketAddress::of(address, 0);
  const int fd = socket(where.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&where.storage), where.size) == 0 &&
      listen(fd, kBacklog) == 0)
    return fd;
  const std::string why = reason();
  if (fd >= 0) close(fd);
  throw Error(ErrorKind::Transport, fmt::format("this rank can't listen at {}: {}", address, why));
}

std::uint16_t port_of(int socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

int start_connect(const SocketAddress& to) {
  const int fd = socket(to.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to.storage), to.size) == 0 || errno == EINPROGRESS)
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int pending_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

void limit_unsent(int socket) { set_option(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsent); }

void tune(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace taxon::net::tcp
