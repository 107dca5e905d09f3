#pragma once

#include <arpa/inet.h>
#include <sched.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace taxon::test {

/// Addresses at which this process listens for TCP, without ports: "127.0.0.1", "0.0.0.0", "[::]".
inline std::set<std::string> listening_addresses() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry, gone).string());
  }
  std::set<std::string> found;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, skip, inode;
      words >> number >> local >> remote >> state;
      for (int field = 4; field < 9; ++field) words >> skip;
      words >> inode;
      constexpr const char* kListen = "0A";
      if (state != kListen || !own.contains("socket:[" + inode + "]")) continue;
      const std::string address = local.substr(0, local.find(':'));
      constexpr const char* kMapped = "0000000000000000FFFF0000";  // an IPv4 address in IPv6 clothes
      if (address.size() > 8 && !address.starts_with(kMapped)) {
        found.insert("[" + address + "]");
        continue;
      }
      const in_addr in{
          static_cast<std::uint32_t>(std::stoul(address.substr(address.size() - 8), nullptr, 16))};
      char text[INET_ADDRSTRLEN];
      found.insert(inet_ntop(AF_INET, &in, text, sizeof text));
    }
  }
  return found;
}

/// Gives this process a network of its own with loopback and two interfaces, 10.9.0.1 and 10.8.0.1. False:
/// the kernel does not let it. It says up to a second late that a link is up, and UCX passes over those of
/// which it has not.
inline bool enter_network_of_its_own() {
  return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
         std::system(
             "mount --make-rprivate / && mount -t sysfs sysfs /sys && ip link set lo up && ip link add one "
             "type veth peer name two && "
             "ip addr add 10.9.0.1/24 dev one && ip link set one up && "
             "ip addr add 10.8.0.1/24 dev two && ip link set two up && "
             "for link in one two; do timeout 30 sh -c "
             "'until ip -o link show dev $0 | grep -q \"state UP\"; do sleep 0.01; done' $link || exit 1; "
             "done") == 0;
}

}  // namespace taxon::test
