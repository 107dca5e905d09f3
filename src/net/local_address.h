#pragma once

#include <string>
#include <vector>

#include "base/named.h"

namespace taxon::net {

/// What is listened at by ranks whose peers are all on their own host.
inline constexpr const char* kLoopbackAddress = "127.0.0.1";

/// A rank as the rendezvous knows it.
struct RankPlace {
  std::string host;     // equal at ranks of one host
  std::string address;  // numeric, as this rank or rank 0 sees it
};

/// The numeric address of this host by which ranks of other hosts reach this one: that of the way to one of
/// them; loopback also where they are containers of one machine that share its network. kLoopbackAddress if
/// all ranks are on one host. Sends nothing. Throws Error{Transport} when there is no way to other hosts.
/// `places` by rank, as control::Session::members() has them.
std::string job_address(Rank self, const std::vector<RankPlace>& places);
bool are_on_one_host(const std::vector<RankPlace>& places);

/// True for numeric addresses that no other machine can reach.
bool is_loopback(const std::string& address);

/// The interface that has this numeric address; empty if none that is up has it.
std::string interface_of(const std::string& address);

}  // namespace taxon::net
