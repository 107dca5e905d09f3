#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/flight_recorder.h"

namespace taxon::train {

/// A span with its words, as it travels to rank 0.
struct TracedSpan {
  std::string track, name;
  std::int64_t unit = -1;
  std::uint64_t bytes = 0;
  double begin_us = 0, duration_us = 0;  // on rank 0's clock
};

/// Spans as bytes; `offset` added to this rank's times gives rank 0's.
std::vector<std::byte> pack_spans(const std::vector<comm::Span>& spans, Duration offset);
/// Throws Error{Mismatch} for bytes that pack_spans did not make.
std::vector<TracedSpan> unpack_spans(const std::vector<std::byte>& bytes);

}  // namespace taxon::train
