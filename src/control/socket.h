#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace taxon::control {

/// An open file descriptor, closed when destroyed.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A socket address.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  /// "10.0.0.1" or "fe80::1"; an IPv4 address in IPv6 clothes is written as IPv4.
  std::string host() const;
  /// "10.0.0.1:29500", "[::1]:29500".
  std::string text() const;
  std::uint16_t port() const;
  bool is_loopback() const;
};

/// What a name means now: endpoints, or in words why there are none.
struct Resolution {
  std::vector<Endpoint> endpoints;
  std::string problem;
};
/// Asks the system's resolver; may block for seconds.
Resolution resolve(const std::string& host, std::uint16_t port);

/// A listening socket, or in words why there is none.
struct Listening {
  Fd fd;
  std::string problem;
  int error = 0;  // the errno behind it, if any
};
/// Listens on one address. Non-blocking.
Listening listen_on(const Endpoint& where);
/// Listens on every address of this host (IPv6 and IPv4 where both exist). Non-blocking.
Listening listen_everywhere(std::uint16_t port);

/// Begins to connect; the socket becomes writable when it is decided. Invalid: errno says why not.
Fd start_connect(const Endpoint& to);
/// The pending error of a socket, 0 if none.
int pending_error(int fd);
Endpoint local_endpoint(int fd);
Endpoint peer_endpoint(int fd);
/// Small messages leave at once; data that a vanished host does not confirm for `patience` ends the
/// connection.
void tune(int fd, std::chrono::milliseconds patience);
/// Bytes that the peer's kernel has not confirmed yet.
int unconfirmed_bytes(int fd);

/// "Connection refused (errno 111)".
std::string errno_text(int error);

}  // namespace taxon::control
