#include "net/grpc/grpc_peer.h"

#include <fmt/format.h>

#include <algorithm>

#include "net/wire/header_of.h"

namespace taxon::net {

GrpcPeer::GrpcPeer(Setting setting, std::unique_ptr<Line> line, Completions& completions)
    : setting_(setting), line_(std::move(line)), completions_(completions) {}

bool GrpcPeer::start(Op& op) {
  op.next_in_queue = nullptr;
  (last_ ? last_->next_in_queue : first_) = &op;
  last_ = &op;
  if (first_ != &op) return false;
  sent_ = 0;
  starting_ = &op;
  pump();
  return std::exchange(starting_, nullptr) == nullptr;
}

void GrpcPeer::pump() {
  if (first_ == nullptr || sending_ || stopped_ || lost_) return;
  sending_ = true;
  line_->send(next_fragment());
  Op& op = *first_;
  if (sent_ < payload_of(op).size()) return;
  first_ = op.next_in_queue;
  if (first_ == nullptr) last_ = nullptr;
  sent_ = 0;
  ++order_;
  if (starting_ == &op)
    starting_ = nullptr;
  else
    completions_.push(op);
}

grpc::ByteBuffer GrpcPeer::next_fragment() {
  const ConstView payload = payload_of(*first_);
  const ConstView part = payload.slice(sent_, std::min(kFragment, payload.size() - sent_));
  WireHeader header = header_of(*first_);
  header.epoch = setting_.epoch;
  header.source = setting_.self.value();
  header.order = order_;
  header.offset = sent_;
  if (setting_.checksums == PayloadChecksums::On) {
    header.flags |= kPayloadChecksum;
    header.payload_checksum = checksum_of(part);
  }
  seal(header);
  sent_ += part.size();
  const grpc::Slice slices[] = {grpc::Slice(&header, sizeof header), grpc::Slice(part.data(), part.size())};
  return {slices, std::size(slices)};
}

bool GrpcPeer::forget(Op& op) {
  Op* before = nullptr;
  for (Op* other = first_; other != nullptr; before = other, other = other->next_in_queue) {
    if (other != &op) continue;
    if (before == nullptr && sent_ > 0) stopped_ = true;
    (before ? before->next_in_queue : first_) = op.next_in_queue;
    if (last_ == &op) last_ = before;
    return true;
  }
  return false;
}

void GrpcPeer::line_free() {
  sending_ = false;
  pump();
}

void GrpcPeer::line_closed() { closed_ = true; }

void GrpcPeer::fail(const std::string& why) {
  if (lost_) return;
  lost_ = std::make_exception_ptr(Error(
      ErrorKind::PeerLost, fmt::format("the connection to rank {} broke: {}", setting_.peer.value(), why),
      ErrorContext{setting_.peer, "connection", {}}));
  news_ = lost_;
}

}  // namespace taxon::net
