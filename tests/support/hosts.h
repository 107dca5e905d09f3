#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/transport_choice.h"
#include "support/processes.h"

namespace taxon::test {

/// This process's transport, connected to the others': each rank is on the host that `host_of` names for it,
/// as far as they know. Both of `loop` and `waits` outlive it.
inline std::unique_ptr<net::ProcessTransport> connect_on_hosts(
    Process& process, task::Executor& loop, task::PendingOps& waits, net::ProcessTransportOptions options,
    const std::function<std::string(std::size_t rank)>& host_of) {
  options.rank = Rank(process.index());
  options.world_size = process.size();
  options.host = host_of(static_cast<std::size_t>(process.index()));
  options.hosts = net::ProcessTransportOptions::Hosts::Several;
  auto net = net::make_transport(loop, waits, options);
  std::vector<net::PeerInfo> peers;
  for (auto& address : process.exchange(net->self().address))
    peers.push_back({address, host_of(peers.size())});
  net->connect(peers);
  return net;
}

}  // namespace taxon::test
