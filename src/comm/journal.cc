#include "comm/journal.h"

namespace taxon::comm {

void Journal::add(const Span& span) {
  ring_[count_++ % kRecent] = span;
  if (keep_ == Keep::Everything) everything_.push_back(span);
}

std::vector<Span> Journal::recent() const {
  std::vector<Span> spans;
  for (std::size_t i = count_ > kRecent ? count_ - kRecent : 0; i < count_; ++i)
    spans.push_back(ring_[i % kRecent]);
  return spans;
}

std::vector<Span> Journal::all() const { return keep_ == Keep::Everything ? everything_ : recent(); }

}  // namespace taxon::comm
