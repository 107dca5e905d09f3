#pragma once

#include <functional>

#include "comm/runtime.h"
#include "support/ranks.h"
#include "tensor/cpu_device.h"

namespace taxon::test {

using RuntimeBody = std::function<task::Task<void>(comm::Runtime&)>;

namespace detail {
inline task::Task<void> run_runtime(const RuntimeBody& body, net::Transport& transport) {
  tensor::CpuDevice device(transport.executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{transport, device, recorder};
  auto task = body(runtime);
  co_await task;
}
}  // namespace detail

/// Runs `body` as `n` ranks of a loopback world, each with a device and a recorder of its own.
inline void run_runtimes(int n, const RuntimeBody& body, net::LoopbackOptions options = {}) {
  run_ranks(
      n, [&](net::Transport& transport) { return detail::run_runtime(body, transport); }, options);
}

}  // namespace taxon::test
