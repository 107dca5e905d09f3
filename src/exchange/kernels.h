#pragma once

#include <functional>
#include <vector>

#include "comm/runtime.h"

namespace taxon::exchange {

/// Runs a kernel of the stream, which the flight recorder keeps as a span of the unit. Returns how long that
/// took, its wait for the exchange stream included. `name`: static text.
task::Task<Duration> run_kernel(comm::Runtime& runtime, const char* name, std::int64_t unit,
                                tensor::Kernel kernel, tensor::Stream stream = tensor::Stream::Exchange);
inline task::Task<Duration> run_kernel(comm::Runtime& runtime, const char* name, std::int64_t unit,
                                       tensor::Cost cost, UniqueFunction<void(tensor::Milestones&)> body) {
  return run_kernel(runtime, name, unit, {name, cost, std::move(body)});
}

/// Vectors of any type and width end with one of these, so that a range cut at its multiples is computed with
/// the same instructions as in one piece.
constexpr std::size_t kLineElements = 64;

/// A range in pieces for a kernel each, so that the communication thread polls at least every few hundred
/// microseconds in between.
std::vector<Range> kernel_pieces(Range range);

/// A range in pieces that stay in a core's cache for a second pass over them.
std::vector<Range> cached_pieces(Range range);

/// Calls `body` for parts of the range, of whole cache lines, by the calling thread's team: task::by_team().
void divide_by_lines(int team, Range range, const std::function<void(Range)>& body);

}  // namespace taxon::exchange
