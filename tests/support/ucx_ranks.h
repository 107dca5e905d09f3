#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/ucx/ucx_transport.h"
#include "support/processes.h"
#include "support/ranks.h"

namespace taxon::test {

/// A rank that is a process of its own: its poll loop, its Waits and its UCX transport, connected to the
/// others.
class UcxRank {
 public:
  UcxRank(const Process& process, net::ProcessTransportOptions options)
      : process_(process), transport_(loop_, waits_, with_place(process, std::move(options))) {
    net::PeerInfo self = transport_.self();
    std::vector<Bytes> addresses = process.exchange(self.address);
    std::vector<net::PeerInfo> peers;
    for (Bytes& address : addresses) peers.push_back({address, self.host});
    transport_.connect(peers);
    loop_.add(transport_);
    process.barrier();  // everybody has mapped everybody before the first can leave
  }
  ~UcxRank() { loop_.remove(transport_); }

  net::UcxTransport& transport() { return transport_; }
  task::PollLoop& loop() { return loop_; }
  const Process& process() const { return process_; }
  void run(const RankBody& body) { run_transports(loop_, {&transport_}, body); }

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
  task::Waits waits_;
  net::UcxTransport transport_;
};

/// Runs `body` as `n` ranks that are processes, over UCX. What a body expects is checked in its process; the
/// caller gets one failure per process that failed.
inline void run_ucx(int n, const RankBody& body, net::ProcessTransportOptions options = {}) {
  std::vector<int> codes = run_processes(n, [&](Process& process) {
    UcxRank rank(process, options);
    rank.run(body);
    return 0;
  });
  for (std::size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(codes[i], 0) << "rank " << i;
}

}  // namespace taxon::test
