#pragma once

#include <deque>
#include <vector>

#include "base/time.h"
#include "net/transport.h"
#include "sim/wiring.h"

namespace taxon::sim {

/// A message or put on its way. Belongs to its pool.
struct Message {
  // As net::Mailbox wants them.
  Rank source;
  net::Tag tag;
  Message* next = nullptr;

  Rank target;
  DType type = DType::Float32;
  bool is_put = false;
  bool dropped = false;  // its sender was cancelled before the last byte had left
  bool is_part = false;  // of a larger one, whose last piece is the message itself
  std::size_t size = 0;
  std::size_t travelling = 0;  // bytes of this piece
  Route route;
  std::size_t hop = 0;           // how many of route.then it has passed
  std::int64_t service = -1;     // the last that the timeline noted
  Instant left;                  // the last byte has left the sender
  Instant last;                  // the last byte is here, as far as it has come
  net::Op* op = nullptr;         // the sender's, until it is done
  ConstView payload;             // the sender's, until then
  std::vector<std::byte> bytes;  // from then on; empty for a phantom
  // Of a put:
  std::uint64_t address = 0;
  std::uint32_t signal = 0;
  std::uint64_t value = 0;

  /// Takes the payload over from the sender.
  void copy_payload() {
    if (!payload.empty() && !payload.is_phantom())
      bytes.assign(payload.data(), payload.data() + payload.size());
    payload = {};
  }
};

/// Messages are reused, so that one costs no allocation.
class MessagePool {
 public:
  Message& take() {
    if (free_ == nullptr) return all_.emplace_back();
    Message& message = *std::exchange(free_, free_->next);
    message.next = nullptr;
    return message;
  }
  void give_back(Message& message) {
    message.bytes.clear();
    if (message.bytes.capacity() > kReusedBuffer) message.bytes = {};
    message.op = nullptr;
    message.payload = {};
    message.dropped = false;
    message.is_part = false;
    message.hop = 0;
    message.next = std::exchange(free_, &message);
  }

 private:
  static constexpr std::size_t kReusedBuffer = 64 << 10;
  std::deque<Message> all_;
  Message* free_ = nullptr;
};

}  // namespace taxon::sim
