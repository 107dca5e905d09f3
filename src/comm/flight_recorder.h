#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace taxon::comm {

/// One thing that a rank did: an interval on one of its tracks.
struct Span {
  const char* track = "";  // "compute", "exchange", "data": a thread in the trace
  const char* name = "";   // static text: "backward", "all_reduce ring"
  std::int64_t unit = -1;  // bucket, or -1
  std::uint64_t bytes = 0;
  Instant begin, end;
};

/// The last operations of a rank, always on: a ring of fixed size that is printed when a run fails, and, when
/// a trace was asked for, everything. Executor's thread only.
class FlightRecorder {
 public:
  enum class Keep { Recent, Everything };
  explicit FlightRecorder(Keep keep = Keep::Recent) : keep_(keep) {}
  void add(const Span& span);
  /// Oldest first.
  std::vector<Span> recent() const;
  /// All spans when everything is kept, otherwise the recent ones.
  std::vector<Span> all() const;

 private:
  static constexpr std::size_t kRecent = 256;
  Keep keep_;
  std::array<Span, kRecent> ring_{};
  std::size_t count_ = 0;
  std::vector<Span> everything_;
};

}  // namespace taxon::comm
