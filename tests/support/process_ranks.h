#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "net/routed_transport.h"
#include "net/transport_choice.h"
#include "net/ucx/peer.h"
#include "support/processes.h"
#include "support/ranks.h"

namespace taxon::test {

/// A rank that is a process of its own: its poll loop, its PendingOps and the transport that the options
/// name, connected to the others.
class ProcessRank {
 public:
  ProcessRank(const Process& process, net::ProcessTransportOptions options)
      : process_(process),
        transport_(net::make_transport(loop_, waits_, with_place(process, std::move(options)))) {
    net::PeerInfo self = transport_->self();
    std::vector<Bytes> addresses = process.exchange(self.address);
    std::vector<net::PeerInfo> peers;
    for (Bytes& address : addresses) peers.push_back({address, self.host});
    transport_->connect(peers);
    loop_.add(*transport_);
    process.barrier();  // everybody has mapped everybody before the first can leave
  }
  ~ProcessRank() { loop_.remove(*transport_); }

  net::ProcessTransport& transport() { return *transport_; }
  task::PollLoop& loop() { return loop_; }
  const Process& process() const { return process_; }
  void run(const RankBody& body) {
    run_transports(loop_, {transport_.get()}, body);
    transport_->drain();  // who runs nothing may wait in ways that do not poll
  }

 private:
  static net::ProcessTransportOptions with_place(const Process& process,
                                                 net::ProcessTransportOptions options) {
    options.rank = Rank(process.index());
    options.world_size = process.size();
    options.host = "here";
    return options;
  }
  const Process& process_;
  task::PollLoop loop_;
  task::PendingOps waits_;
  std::unique_ptr<net::ProcessTransport> transport_;
};

/// One over UCX. REQUIRES: the options name one of UCX's.
class UcxRank : public ProcessRank {
 public:
  using ProcessRank::ProcessRank;
  net::FragmentCounts fragments_to(Rank peer) {
    return dynamic_cast<net::RoutedTransport&>(transport()).ucx_peer(peer)->outbox.counts();
  }
};

/// Runs `body` as `n` ranks that are processes, over the transport that the options name. What a body expects
/// is checked in its process; the caller gets one failure per process that failed.
inline void run_ranks_as_processes(int n, const RankBody& body, net::ProcessTransportOptions options = {}) {
  std::vector<int> codes = run_processes(n, [&](Process& process) {
    ProcessRank rank(process, options);
    rank.run(body);
    return 0;
  });
  for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], 0) << "rank " << i;
}

/// Names of transport_choices() that this build has, of those given.
inline std::vector<std::string> built(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) {
    return !net::what_is_missing(net::find_transport_choice(name)).empty();
  });
  return names;
}

}  // namespace taxon::test
