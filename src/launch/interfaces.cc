#include "launch/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <fstream>
#include <map>

namespace taxon::launch {
namespace {

/// Empty for families that are no internet addresses.
std::string address_text(const sockaddr* address) {
  if (address == nullptr) return "";
  socklen_t size = address->sa_family == AF_INET    ? sizeof(sockaddr_in)
                   : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                    : 0;
  char text[NI_MAXHOST] = "";
  if (size == 0 || getnameinfo(address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

int link_speed(const std::string& name) {
  std::ifstream file("/sys/class/net/" + name + "/speed");  // reading fails for virtual devices
  int megabits = 0;
  return file >> megabits && megabits > 0 ? megabits : 0;
}

}  // namespace

std::vector<Interface> network_interfaces() {
  std::map<std::string, Interface> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  for (ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    std::string address = address_text(entry->ifa_addr);
    if (address.empty() || (entry->ifa_flags & IFF_UP) == 0) continue;
    Interface& interface = found[entry->ifa_name];
    interface.name = entry->ifa_name;
    interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    interface.addresses.insert(address);
  }
  freeifaddrs(all);
  std::vector<Interface> result;
  for (auto& [name, interface] : found) {
    interface.megabits = link_speed(name);
    result.push_back(std::move(interface));
  }
  return result;
}

}  // namespace taxon::launch
