#include "net/tcp/inbound.h"

#include <algorithm>
#include <cstring>

namespace taxon::net::tcp {

FrameReader::FrameReader(Inbox& inbox, Rank source, std::size_t fragment, std::size_t buffer)
    : inbox_(inbox), source_(source), fragment_(fragment), buffer_(buffer) {}

int FrameReader::places(iovec* pieces) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  int count = 0;
  if (in_body_) {
    if (std::byte* target = inbox_.target(header_)) {
      pieces[count++] = {target + header_.offset + got_, rest()};
    } else {
      const std::size_t most = std::min(rest(), kDiscarded);
      if (discarded_.size() < most) discarded_.resize(most);
      pieces[count++] = {discarded_.data(), most};
      if (rest() > kDiscarded) return count;
    }
  }
  pieces[count++] = {buffer_.data() + end_, buffer_.size() - end_};
  return count;
}

bool FrameReader::came(std::size_t bytes) {
  if (in_body_) {
    const std::size_t payload = std::min(bytes, rest());
    advance(payload);
    bytes -= payload;
  }
  end_ += bytes;
  return parse();
}

bool FrameReader::resume() {
  if (waits_) {
    if (inbox_.begin(header_, length_) == Inbox::Turn::Later) return false;
    waits_ = false;
    in_body_ = true;
    take_payload();
  }
  return parse();
}

bool FrameReader::parse() {
  while (!in_body_ && !inbox_.broken() && end_ - begin_ >= sizeof(WireHeader)) {
    if (!take_header()) return false;
    if (in_body_) take_payload();
  }
  return true;
}

/// False: it is not its turn.
bool FrameReader::take_header() {
  const ConstView head(buffer_.data() + begin_, sizeof(WireHeader));
  begin_ += sizeof(WireHeader);
  if (!inbox_.accept(head, header_, source_)) return true;
  if (header_.offset > header_.size) {
    inbox_.refuse(header_, "fragments out of order");
    return true;
  }
  length_ = static_cast<std::size_t>(std::min<std::uint64_t>(fragment_, header_.size - header_.offset));
  got_ = 0;
  waits_ = inbox_.begin(header_, length_) == Inbox::Turn::Later;
  in_body_ = !waits_;
  return !waits_;
}

void FrameReader::take_payload() {
  const std::size_t bytes = std::min(rest(), end_ - begin_);
  if (std::byte* target = inbox_.target(header_); target != nullptr && bytes > 0)
    std::memcpy(target + header_.offset + got_, buffer_.data() + begin_, bytes);
  begin_ += bytes;
  advance(bytes);
}

void FrameReader::advance(std::size_t bytes) {
  got_ += bytes;
  if (got_ < length_) return;
  in_body_ = false;
  inbox_.end(header_, length_);
}

}  // namespace taxon::net::tcp
