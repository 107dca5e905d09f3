#pragma once

#include <vector>

#include "comm/runtime.h"

namespace taxon::exchange {

/// Runs a kernel of the device's exchange stream, which the flight recorder keeps as a span of the unit.
/// Returns how long that took, its wait for the stream included. `name`: static text.
task::Task<Duration> run_kernel(comm::Runtime& runtime, const char* name, std::int64_t unit,
                                tensor::Kernel kernel);
inline task::Task<Duration> run_kernel(comm::Runtime& runtime, const char* name, std::int64_t unit,
                                       tensor::Cost cost, UniqueFunction<void(tensor::Milestones&)> body) {
  return run_kernel(runtime, name, unit, {name, cost, std::move(body)});
}

/// A range in pieces for a kernel each, so that the communication thread polls at least every few hundred
/// microseconds in between.
std::vector<Range> kernel_pieces(Range range);

}  // namespace taxon::exchange
