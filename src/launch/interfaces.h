#pragma once

#include <set>
#include <string>
#include <vector>

namespace taxon::launch {

/// A network interface that is up and has an address.
struct Interface {
  std::string name;
  bool loopback = false;
  std::set<std::string> addresses;  // IPv4 and IPv6, as text
  int megabits = 0;                 // per second; 0: the driver does not say
};

/// Those of this network namespace, by name.
std::vector<Interface> network_interfaces();

}  // namespace taxon::launch
