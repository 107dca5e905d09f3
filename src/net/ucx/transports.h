#pragma once

#include <map>
#include <set>
#include <string>

namespace taxon::net {

/// UCX transport ("posix", "tcp", "rc_verbs") -> the devices that it found here.
std::map<std::string, std::set<std::string>> ucx_transports();
/// The version of the UCX library that is loaded.
std::string ucx_version();

}  // namespace taxon::net
