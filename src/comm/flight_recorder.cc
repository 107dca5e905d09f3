#include "comm/flight_recorder.h"

namespace taxon::comm {

void FlightRecorder::add(const Span& span) {
  ring_[count_++ % kRecent] = span;
  if (keep_ == Keep::Everything) everything_.push_back(span);
}

std::vector<Span> FlightRecorder::recent() const {
  std::vector<Span> spans;
  for (std::size_t i = count_ > kRecent ? count_ - kRecent : 0; i < count_; ++i)
    spans.push_back(ring_[i % kRecent]);
  return spans;
}

std::vector<Span> FlightRecorder::all() const { return keep_ == Keep::Everything ? everything_ : recent(); }

}  // namespace taxon::comm
