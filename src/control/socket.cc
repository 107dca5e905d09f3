#include "control/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace taxon::control {
namespace {

constexpr int kBacklog = 4096;
constexpr const char* kInUse = "the port is in use";

void set_option(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

enum class Family : std::uint8_t { AsGiven, DualStack };

Listening listen_with(const Endpoint& where, Family family) {
  Fd fd(socket(where.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return {{}, errno_text(errno), errno};
  // A job that starts again must not wait for its predecessor's connections to time out.
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == Family::DualStack) set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd.get(), where.get(), where.size) != 0 || listen(fd.get(), kBacklog) != 0)
    return {{}, errno == EADDRINUSE ? kInUse : errno_text(errno), errno};
  return {std::move(fd), {}, 0};
}

Endpoint any_address(int family, std::uint16_t port) {
  Endpoint any;
  if (family == AF_INET6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&any.address);
    v6->sin6_addr = in6addr_any;
    v6->sin6_port = htons(port);
    any.size = sizeof *v6;
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&any.address);
    v4->sin_addr.s_addr = htonl(INADDR_ANY);
    v4->sin_port = htons(port);
    any.size = sizeof *v4;
  }
  any.address.ss_family = static_cast<sa_family_t>(family);
  return any;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::string Endpoint::host() const {
  char text[NI_MAXHOST] = "?";
  getnameinfo(get(), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  constexpr std::string_view kMapped = "::ffff:";
  std::string_view host = text;
  if (host.starts_with(kMapped) && host.find('.') != std::string_view::npos)
    host.remove_prefix(kMapped.size());
  return std::string(host);
}

std::string Endpoint::text() const {
  std::string name = host();
  return name.find(':') == std::string::npos ? fmt::format("{}:{}", name, port())
                                             : fmt::format("[{}]:{}", name, port());
}

std::uint16_t Endpoint::port() const {
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return 0;
}

bool Endpoint::is_loopback() const {
  if (address.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&address)->sin_addr.s_addr) >> 24) == 127;
  if (address.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr) != 0;
  return false;
}

Resolution resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  // A bare container has no /etc/hosts, but the name has a meaning of its own (RFC 6761).
  if (rc != 0 && host == "localhost") return resolve("127.0.0.1", port);
  if (rc != 0) {
    std::string why = rc == EAI_SYSTEM ? errno_text(errno) : gai_strerror(rc);
    return {{}, fmt::format("cannot resolve the name '{}': {}", host, why)};
  }
  Resolution result;
  for (addrinfo* at = list; at != nullptr; at = at->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.address, at->ai_addr, at->ai_addrlen);
    endpoint.size = at->ai_addrlen;
    result.endpoints.push_back(endpoint);
  }
  freeaddrinfo(list);
  return result;
}

Listening listen_on(const Endpoint& where) { return listen_with(where, Family::AsGiven); }

Listening listen_everywhere(std::uint16_t port) {
  Listening both = listen_with(any_address(AF_INET6, port), Family::DualStack);
  if (both.fd.valid() || both.problem == kInUse) return both;
  return listen_with(any_address(AF_INET, port), Family::AsGiven);  // a host without IPv6
}

Fd start_connect(const Endpoint& to) {
  Fd fd(socket(to.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return {};
  if (connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS) {
    int error = errno;
    fd = Fd();
    errno = error;
  }
  return fd;
}

int pending_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Endpoint local_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size);
  return endpoint;
}

Endpoint peer_endpoint(int fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  getpeername(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size);
  return endpoint;
}

void tune(int fd, std::chrono::milliseconds patience) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.count()));
}

int unconfirmed_bytes(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

std::string errno_text(int error) {
  return fmt::format("{} (errno {})", std::generic_category().message(error), error);
}

}  // namespace taxon::control
