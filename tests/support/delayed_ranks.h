#pragma once

#include <memory>
#include <vector>

#include "net/faulty/faulty.h"
#include "support/ranks.h"

namespace taxon::test {

/// Loopback whose sends and puts are held back for random times.
inline void run_delayed(int n, const RankBody& body, net::FaultyOptions faults,
                        net::LoopbackOptions options = {}) {
  task::PollLoop loop;
  net::LoopbackWorld world(loop, n, options);
  std::vector<std::unique_ptr<net::FaultyTransport>> faulty;
  std::vector<net::Transport*> ranks;
  for (int i = 0; i < n; ++i) {
    faulty.push_back(std::make_unique<net::FaultyTransport>(world.transport(Rank(i)), faults));
    ranks.push_back(faulty.back().get());
  }
  run_transports(loop, ranks, body);
}

}  // namespace taxon::test
