#include "net/grpc/grpc_peer.h"

#include <fmt/format.h>

namespace taxon::net {

GrpcPeer::GrpcPeer(Setting setting, std::unique_ptr<Line> line, Completions& completions)
    : setting_(setting), line_(std::move(line)), queue_(completions) {}

bool GrpcPeer::start(Op& op) {
  return queue_.start(op, [this] { pump(); });
}

void GrpcPeer::pump() {
  if (queue_.empty() || sending_ != Sending::No || queue_.cut() || lost_) return;
  sending_ = Sending::Yes;
  line_->send(next_fragment());
  if (queue_.is_whole()) queue_.pop();
}

grpc::ByteBuffer GrpcPeer::next_fragment() {
  const ConstView part = queue_.next(kFragment);
  WireHeader header = header_of(queue_.first());
  header.epoch = setting_.epoch;
  header.source = setting_.self.value();
  header.order = queue_.order();
  header.offset = queue_.sent();
  if (setting_.checksums == PayloadChecksums::On) {
    header.flags |= kPayloadChecksum;
    header.payload_checksum = checksum_of(part);
  }
  seal(header);
  queue_.advance(part.size());
  const grpc::Slice slices[] = {grpc::Slice(&header, sizeof header), grpc::Slice(part.data(), part.size())};
  return {slices, std::size(slices)};
}

void GrpcPeer::line_free() {
  sending_ = Sending::No;
  pump();
}

void GrpcPeer::fail(const std::string& why) {
  if (lost_) return;
  lost_ = std::make_exception_ptr(Error(
      ErrorKind::PeerLost, fmt::format("the connection to rank {} broke: {}", setting_.peer.value(), why),
      ErrorContext{setting_.peer, "connection", {}}));
  news_ = lost_;
}

}  // namespace taxon::net
