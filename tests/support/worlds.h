#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "support/delayed_ranks.h"
#if defined(TAXON_TEST_VIRTUAL)
#include "support/virtual_ranks.h"
#else
#include "support/process_ranks.h"
#endif

#if defined(__SANITIZE_THREAD__)
#define TAXON_TEST_UCX 0  // the sanitizer can't see into UCX or gRPC and does not follow forks
#else
#define TAXON_TEST_UCX 1
#endif

namespace taxon::test {

/// A way to run N ranks: what holds for a transport must hold in all of them.
struct World {
  std::string name;
  std::function<void(int n, const RankBody& body)> run;
  bool shares_memory;
  friend std::ostream& operator<<(std::ostream& out, const World& world) { return out << world.name; }
};

/// Waits for all of them, in order. A named reference: GCC 12 copies what `co_await *op` refers to.
inline task::Task<void> finish(std::vector<std::unique_ptr<net::Op>>& ops) {
  for (auto& op : ops) {
    net::Op& one = *op;
    co_await one;
  }
}

#if defined(TAXON_TEST_VIRTUAL)
inline std::vector<World> all_worlds() {
  return {{"virtual", [](int n, const RankBody& body) { run_virtual(one_host(n), n, body); }, true},
          {"virtual_network", [](int n, const RankBody& body) { run_virtual(separate_hosts(n), n, body); },
           false},
          {"virtual_delayed", [](int n, const RankBody& body) { run_virtual(delayed(one_host(n)), n, body); },
           true}};
}
#else
inline std::vector<World> all_worlds() {
  std::vector<World> worlds = {
      {"loopback", [](int n, const RankBody& body) { run_ranks(n, body); }, true},
      {"loopback_unshared", [](int n, const RankBody& body) { run_ranks(n, body, {.share_memory = false}); },
       false},
      {"delayed",
       [](int n, const RankBody& body) {
         run_delayed(n, body, {.seed = 7, .longest_delay = std::chrono::microseconds(300)});
       },
       true},
  };
#if TAXON_TEST_UCX
  worlds.push_back(
      {"ucx_shm", [](int n, const RankBody& body) { run_ranks_as_processes(n, body, {.transport = "shm"}); },
       true});
  const auto apart = [&worlds](const std::string& name, const net::ProcessTransportOptions& options) {
    worlds.push_back(
        {name, [options](int n, const RankBody& body) { run_ranks_as_processes(n, body, options); }, false});
  };
  apart("ucx_tcp", {.transport = "ucx-tcp", .payload_checksums = net::PayloadChecksums::On});
  apart("tcp", {.transport = "tcp"});
  apart("tcp_several",
        {.transport = "tcp", .payload_checksums = net::PayloadChecksums::On, .connections = 3});
  apart("tcp_tls",
        {.transport = "tcp", .encryption = net::ProcessTransportOptions::Encryption::Tls, .connections = 2});
  for (const std::string& transport : built({"grpc", "grpc-unary"}))
    apart(transport == "grpc" ? "grpc" : "grpc_unary",
          {.transport = transport, .payload_checksums = net::PayloadChecksums::On});
#endif
  return worlds;
}
#endif

inline std::string world_name(const testing::TestParamInfo<World>& info) { return info.param.name; }

}  // namespace taxon::test
