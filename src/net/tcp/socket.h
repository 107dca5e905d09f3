#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "net/tcp/watched.h"

namespace taxon::net::tcp {

/// The address of a listener.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  /// Throws Error{Transport} when the address is not a numeric one of IPv4 or IPv6.
  static SocketAddress of(const std::string& address, std::uint16_t port);
};

/// An epoll set of sockets whose owners are told of edges.
class Poller {
 public:
  /// Throws Error{Transport}.
  Poller();
  Poller(const Poller&) = delete;
  ~Poller();
  int fd() const { return fd_; }
  void watch(int socket, Watched& owner);
  /// Adds a descriptor that nobody is told of, which only makes fd() readable.
  void watch_level(int descriptor);
  void forget(int socket);
  /// Tells the owners what has happened; never blocks. REQUIRES: no owner dies of it.
  bool poll();

 private:
  static constexpr int kEvents = 64;
  int fd_;
};

/// Listens at the address, at a port that the kernel chooses. Throws Error{Transport}.
int listen_at(const std::string& address);
std::uint16_t port_of(int socket);
/// Begins to connect; below 0: errno says why not.
int start_connect(const SocketAddress& to);
/// The pending error of a socket; 0 if there is none.
int pending_error(int socket);
/// Small messages leave at once, and the kernel asks after hosts that are silent (TCP keep-alive).
void tune(int socket);
/// Takes no more ahead of what TCP may send now than fits a short time.
void limit_unsent(int socket);

}  // namespace taxon::net::tcp
