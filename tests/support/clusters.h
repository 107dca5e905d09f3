#pragma once

#include "plan/cluster.h"

namespace taxon::test {

/// Free arithmetic and memory, so that figures of links are exact.
inline plan::DeviceModel free_device() { return {.flops = 1e30, .memory_bandwidth = 1e30}; }

/// One rank a host: 10 us and 1 GB/s between them, a microsecond a KB.
inline plan::ClusterModel separate_hosts(int hosts) {
  plan::HostModel host;
  host.count = hosts;
  host.device = free_device();
  host.network = {.latency = 8e-6, .overhead = 2e-6, .bandwidth = 1e9};
  return {.hosts = {host}};
}

/// One host whose ranks share memory.
inline plan::ClusterModel one_host(int ranks) {
  plan::HostModel host;
  host.devices = ranks;
  host.device = free_device();
  host.inside = {.latency = 1e-6, .bandwidth = 10e9};
  return {.hosts = {host}};
}

}  // namespace taxon::test
