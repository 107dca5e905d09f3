#include "net/local_address.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace taxon::net {
namespace {

constexpr const char* kAnyPort = "9";  // of a datagram that is never sent

std::string text_of(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  if (getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return text;
}

/// Where this host's packets to `address` come from.
std::string source_towards(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* raw = nullptr;
  if (getaddrinfo(address.c_str(), kAnyPort, &hints, &raw) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> there(raw, &freeaddrinfo);
  const int fd = socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return {};
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  // Of a datagram socket this chooses a way and sends nothing.
  const bool found = connect(fd, there->ai_addr, there->ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  close(fd);
  return found ? text_of(reinterpret_cast<const sockaddr*>(&own), size) : std::string();
}

}  // namespace

std::string job_address(Rank self, const std::vector<RankPlace>& places) {
  const std::string& here = places[static_cast<std::size_t>(self.value())].host;
  const RankPlace* far = nullptr;
  for (const RankPlace& place : places)
    if (place.host != here && (far == nullptr || is_loopback(far->address))) far = &place;
  if (far == nullptr) return kLoopbackAddress;
  const std::string own = source_towards(far->address);
  if (own.empty())
    throw Error(ErrorKind::Transport,
                fmt::format("this host has no way to {}, where another host's ranks are", far->address));
  return own;
}

bool are_on_one_host(const std::vector<RankPlace>& places) {
  return std::all_of(places.begin(), places.end(),
                     [&](const RankPlace& place) { return place.host == places.front().host; });
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::string interface_of(const std::string& address) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, &freeifaddrs);
  // Any address that begins with 127 is the loopback interface's, whichever it names.
  const bool loopback = is_loopback(address);
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (loopback && (entry->ifa_flags & IFF_LOOPBACK) != 0) return entry->ifa_name;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (text_of(entry->ifa_addr, size) == address) return entry->ifa_name;
  }
  return {};
}

}  // namespace taxon::net
