#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

#include "net/grpc/events.h"

namespace taxon::net {

/// The way from this rank to one peer: a call that is open for as long as both live, so that either notices
/// the other's end. Takes one fragment at a time; then LineFree or SendFailed comes, and at the end
/// LineClosed. The rank's thread only.
class Line {
 public:
  struct Setting {
    Rank self;
    Rank peer;
    std::string target;  // as gRPC names addresses
    std::string token;   // the peer's
    std::shared_ptr<Events> events;
  };
  virtual ~Line() = default;
  /// Nobody writes to the fragment any more. REQUIRES: the line is free.
  virtual void send(grpc::ByteBuffer fragment) = 0;
  /// What was sent still gets there, and nothing follows. REQUIRES: the line is free.
  virtual void hang_up() = 0;
  /// As soon as possible.
  virtual void cancel() = 0;
  /// LineEnding came.
  virtual void let_go() = 0;
  /// Where the peer is, as gRPC says it; known once it is connected.
  virtual std::string address() const = 0;
};

/// Fragments travel in the open call.
std::unique_ptr<Line> open_streaming_line(Line::Setting setting);
/// Each fragment is a call of its own, answered when the peer took it.
std::unique_ptr<Line> open_unary_line(Line::Setting setting);

}  // namespace taxon::net
