#include "train/report/trace.h"

#include "train/bytes.h"

namespace taxon::train {

std::vector<std::byte> pack_spans(const std::vector<comm::Span>& spans, Duration offset) {
  Packer packer;
  packer.number(static_cast<std::int64_t>(spans.size()));
  for (const comm::Span& span : spans) {
    packer.text(span.track);
    packer.text(span.name);
    packer.number(span.unit);
    packer.number(static_cast<std::int64_t>(span.bytes));
    packer.real(to_seconds(span.begin.time_since_epoch() + offset) * 1e6);
    packer.real(to_seconds(span.end - span.begin) * 1e6);
  }
  return packer.take();
}

std::vector<TracedSpan> unpack_spans(const std::vector<std::byte>& bytes) {
  Unpacker unpacker(bytes);
  std::vector<TracedSpan> spans;
  for (auto left = unpacker.number(); left > 0; --left) {
    TracedSpan span;
    span.track = unpacker.text();
    span.name = unpacker.text();
    span.unit = unpacker.number();
    span.bytes = static_cast<std::uint64_t>(unpacker.number());
    span.begin_us = unpacker.real();
    span.duration_us = unpacker.real();
    spans.push_back(std::move(span));
  }
  return spans;
}

}  // namespace taxon::train
