#include "comm/rows/agreement.h"

#include <fmt/format.h>

#include "net/describe.h"

namespace taxon::comm {
namespace {

/// A type that a peer told.
std::string_view name_of(std::uint32_t type) {
  return type <= static_cast<std::uint32_t>(DType::UInt8) ? to_string(static_cast<DType>(type)) : "no type";
}

}  // namespace

void SizeHandshake::tell(Communicator& group, net::Tag tag, int member) {
  auto& send = sends_[sends_[0] ? 1 : 0];
  ConstView bytes(reinterpret_cast<const std::byte*>(&own_), sizeof own_);
  send.emplace(group.runtime().transport, group.global(member), tag, bytes, DType::UInt8);
}

void SizeHandshake::receive(Communicator& group, net::Tag tag, int member) {
  int place = receives_[0] ? 1 : 0;
  View bytes(reinterpret_cast<std::byte*>(&theirs_[place]), sizeof theirs_[place]);
  receives_[place].emplace(group.runtime().transport, group.global(member), tag, bytes, DType::UInt8);
}

task::Task<void> SizeHandshake::check(Communicator& group) {
  for (int i = 0; i < 2; ++i) {
    if (!receives_[i]) continue;
    net::RecvOp* receive = &*receives_[i];
    co_await *receive;
    if (theirs_[i] == own_) continue;
    std::string operation = net::describe_operation(receive->tag);
    std::string subject = receive->subject();
    throw Error(
        ErrorKind::Mismatch,
        fmt::format("Ranks disagree in {}, {}: rank {} came with {} bytes of {}, rank {} with {} bytes of "
                    "{}. Every rank must run the same plan and the same model.",
                    operation, subject, receive->peer.value(), theirs_[i].bytes, name_of(theirs_[i].type),
                    group.runtime().rank().value(), own_.bytes, name_of(own_.type)),
        ErrorContext{receive->peer, operation, subject});
  }
  for (auto& slot : sends_) {
    if (!slot) continue;
    net::SendOp* send = &*slot;
    co_await *send;
  }
}

}  // namespace taxon::comm
