#pragma once

#include <memory>

#include "net/grpc/line.h"
#include "net/process_transport.h"
#include "net/wire/send_queue.h"

namespace taxon::net {

/// Another rank, as one rank sends to it: messages and puts one after the other, in fragments. The network
/// never holds the caller's memory, so an operation is done when its last byte was copied into a fragment,
/// and can be recalled at any time.
class GrpcPeer {
 public:
  struct Setting {
    Rank self;
    Rank peer;
    std::uint32_t epoch = 0;
    PayloadChecksums checksums = PayloadChecksums::Off;
  };
  /// The line has one of them, gRPC's buffers hold what HTTP/2's flow control admits.
  static constexpr std::size_t kFragment = 512 << 10;

  GrpcPeer(Setting setting, std::unique_ptr<Line> line, Completions& completions);

  /// Queues a SendOp or PutOp and sends what the line takes. Does not complete `op` itself: true if it is
  /// done.
  bool start(Op& op);
  /// False: the op was not queued here. When a part of it was sent the peer can't make sense of anything
  /// later, and nothing more is sent.
  bool forget(Op& op) { return queue_.forget(op); }
  bool has_queue() const { return !queue_.empty(); }
  /// Nothing is queued or on its way into the line.
  bool idle() const { return queue_.empty() && sending_ == Sending::No; }

  void line_free();
  void send_failed() { sending_ = Sending::Failed; }
  void line_closed() { closed_ = true; }
  /// The connection broke: every operation with this peer fails with it.
  void fail(const std::string& why);

  Line& line() { return *line_; }
  const Line& line() const { return *line_; }
  /// gRPC is done with the line, and with what was sent by it last.
  bool closed() const { return closed_ && sending_ != Sending::Yes; }
  /// Null while the peer is there.
  std::exception_ptr lost() const { return lost_; }
  /// lost(), once: null when it was asked since.
  std::exception_ptr take_news() { return std::exchange(news_, nullptr); }

 private:
  void pump();
  grpc::ByteBuffer next_fragment();

  const Setting setting_;
  const std::unique_ptr<Line> line_;
  SendQueue queue_;
  enum class Sending { No, Yes, Failed } sending_ = Sending::No;
  bool closed_ = false;
  std::exception_ptr lost_, news_;
};

}  // namespace taxon::net
