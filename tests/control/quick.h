#pragma once

#include <string>

#include "control/session.h"

namespace taxon::control {

/// Options with patience for tests: everything in tens of milliseconds.
inline JoinOptions quick(int rank, int world, std::uint16_t port) {
  using std::chrono::milliseconds;
  JoinOptions options;
  options.rank = Rank(rank);
  options.world_size = world;
  options.port = port;
  options.version = "1";
  options.plan_hash = "p";
  options.host_id = "host-of-" + std::to_string(rank);
  options.blob = {std::byte(rank), std::byte(7)};
  options.timeouts = {.join = milliseconds(30'000),
                      .silence = milliseconds(20'000),
                      .peer = milliseconds(40'000),
                      .hang = milliseconds(200),
                      .heartbeat = milliseconds(20),
                      .progress = milliseconds(50)};
  return options;
}

}  // namespace taxon::control
