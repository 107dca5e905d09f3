#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace taxon::report {

/// One interval of one rank's track. Times are on one clock for all ranks.
struct TraceSpan {
  std::string track;  // "compute", "exchange": a thread in the viewer
  std::string name;
  std::int64_t unit = -1;  // bucket; -1: none
  std::uint64_t bytes = 0;
  double begin_us = 0, duration_us = 0;
};

/// A trace in Chrome's JSON format, which Perfetto reads too: one process per rank, one thread per track.
/// `unit_names[b]` describes bucket b.
std::string chrome_trace(const std::vector<std::vector<TraceSpan>>& spans_by_rank,
                         const std::vector<std::string>& unit_names);

}  // namespace taxon::report
