#pragma once

#include <cstdint>
#include <vector>

#include "sim/timeline.h"

namespace taxon::sim {

/// A piece of a critical path.
struct PathSegment {
  enum class Kind {
    Compute,   // a kernel of the compute stream
    Exchange,  // one of the exchange stream: sums, encoding, updates
    Data,      // one of the data stream
    Link,      // bytes pass a link
    Latency,   // a message's overhead and latency
    Wait,      // nothing that the timeline knows of
  } kind = Kind::Wait;
  int rank = 0;            // where, for messages the source's
  std::uint32_t name = 0;  // of the kernel: Timeline::name(); of a link: its place among World::links()
  std::uint32_t unit = 0;  // of messages
  Instant begin, end;
  Duration time() const { return end - begin; }
};

/// What determined when `rank` had come to `until`: walked back from there to `from` along what ended just
/// when the next began. A kernel waits for the one before it on its stream, a message for the one before it
/// on its link, a rank for what last arrived or ended there. Where several ended at once, any of them may be
/// shown. Ascending, without gaps; stretches follow each other in time, not on one rank. REQUIRES: the
/// timeline is complete from `from` on.
std::vector<PathSegment> critical_path(const ResourceTimeline& timeline, int rank, Instant from,
                                       Instant until);

}  // namespace taxon::sim
