#pragma once

#include "comm/collective_executor.h"
#include "comm/flight_recorder.h"
#include "net/transport.h"
#include "task/executor.h"
#include "tensor/device.h"

namespace taxon::comm {

/// The doors as one rank sees them. Real and virtual families exist; nothing above can ask which one it
/// holds. Everything referenced outlives the runtime's users.
struct Runtime {
  net::Transport& transport;
  tensor::Device& device;
  FlightRecorder& recorder;
  CollectiveExecutor& carrier = step_by_step();

  Rank rank() const { return transport.rank(); }
  int world_size() const { return transport.world_size(); }
  task::Executor& executor() const { return transport.executor(); }
  task::PendingOps& pending() const { return transport.pending(); }
};

}  // namespace taxon::comm
