#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "net/tcp/stream.h"
#include "net/wire/inbox.h"
#include "net/wire/wire.h"

namespace taxon::net::tcp {

/// Puts the frames of one connection into an inbox: headers go through a buffer, payloads straight to where
/// they belong, but for what came with their header. A frame is a WireHeader and the payload that it
/// announces: at most `fragment` bytes, less at the end of a message. Knows no socket: it is told what came.
class FrameReader {
 public:
  static constexpr std::size_t kBuffer = 16 << 10;

  /// `source`: whom the connection proved to be; headers that name another rank break the inbox. `buffer`:
  /// bytes for headers and what comes with them, at least one header.
  FrameReader(Inbox& inbox, Rank source, std::size_t fragment, std::size_t buffer = kBuffer);

  /// Where the next bytes go: some of these pieces, in this order. At most two.
  int places(iovec* pieces);
  /// So many bytes came there. False: the frame that has begun must wait for one on another connection of its
  /// source; resume() asks again.
  bool came(std::size_t bytes);
  bool resume();
  bool waits() const { return waits_; }
  /// With fewer bytes than these it can do nothing that anybody waits for.
  std::size_t awaited() const { return in_body_ ? rest() : 1; }
  /// Nothing of a frame has come that would be missing.
  bool is_between_frames() const { return begin_ == end_ && !in_body_ && !waits_; }

 private:
  /// Of payload that nobody wants any more.
  static constexpr std::size_t kDiscarded = 64 << 10;

  std::size_t rest() const { return length_ - got_; }
  bool parse();
  bool take_header();
  void take_payload();
  void advance(std::size_t bytes);

  Inbox& inbox_;
  const Rank source_;
  const std::size_t fragment_;
  std::vector<std::byte> buffer_;
  std::vector<std::byte> discarded_;
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer
  WireHeader header_;
  std::size_t length_ = 0, got_ = 0;  // of the payload of the frame
  bool in_body_ = false, waits_ = false;
};

}  // namespace taxon::net::tcp
