#pragma once

#include <span>
#include <vector>

#include "base/view.h"
#include "ours/rank.h"

namespace taxon::bench {

/// A call in the sender's memory: its head, which FabricRing writes, and right behind it the payload, so that
/// both travel in one piece.
class CallBuffer {
 public:
  static constexpr std::size_t kHead = 64;  // a cache line
  explicit CallBuffer(std::size_t elements) : memory_(kHead / sizeof(float) + elements) {}
  float* payload() { return memory_.data() + kHead / sizeof(float); }
  View whole() { return as_view(std::span<float>(memory_)); }

 private:
  std::vector<float> memory_;
};

/// Calls from one rank of two to the other over the same fabric, as gRPC over RDMA makes them (arXiv
/// 1805.08430, "gRPC.RDMA"): the library does not know where the receiver wants a message, so it goes through
/// a ring of private buffers: copied into the ring by the sender, and out of it by the receiver, chunk by
/// chunk. A small call is one put; buffers are given back half a ring at a time. One coroutine at a time at
/// each end. On the rank's loop.
class FabricRing {
 public:
  static constexpr std::size_t kChunk = 256 << 10;
  static constexpr std::uint64_t kChunks = 8;

  FabricRing(OwnRank& rank, int sender) : rank_(rank), sender_(sender) {}

  /// Collective: at both ends, in the same order among their rings.
  task::Task<void> open();
  /// A call. Done when `call` may be overwritten.
  task::Task<void> send(std::uint64_t number, CallBuffer& call);
  /// At the sender: until the receiver has given everything back.
  task::Task<void> drained();
  /// The next call, copied to `target`. False if it has another number or other bytes.
  task::Task<bool> take(std::uint64_t number, View target);
  /// At the receiver: all chunks that it still holds. When no other call will come soon.
  task::Task<void> give_back();

 private:
  Rank peer() const { return Rank(rank_.group().rank() == sender_ ? 1 - sender_ : sender_); }
  task::Task<void> send_chunk(ConstView chunk);
  task::Task<ConstView> await_chunk(std::size_t bytes);

  OwnRank& rank_;
  int sender_;
  net::Region ring_;
  net::RemoteRegion there_;  // the receiver's
  std::uint32_t signals_ =
      0;                     // of the receiver: chunks that came; the next one, of the sender: that are free
  std::uint64_t chunk_ = 0;  // the last one that was sent, or taken
  std::uint64_t given_back_ = 0;  // the receiver's
};

}  // namespace taxon::bench
