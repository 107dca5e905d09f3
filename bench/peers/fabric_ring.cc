#include "peers/fabric_ring.h"

#include <algorithm>
#include <cstring>

namespace taxon::bench {
namespace {

/// All that the receiver knows of a call before it has it.
struct CallHead {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(CallHead) <= CallBuffer::kHead);

}  // namespace

task::Task<void> FabricRing::open() {
  net::Transport& net = rank_.transport();
  ring_ = net.allocate(kChunks * kChunk);
  signals_ = net.allot_signals(2);  // as many and as often as at the other end: equal numbers
  auto packed = ring_.share().pack();
  auto asking =
      rank_.group().gather(rank_.group().begin(net::Operation::User, static_cast<std::uint32_t>(sender_)),
                           ConstView(packed.data(), packed.size()));
  const auto all = co_await asking;
  const auto receiver = static_cast<std::size_t>(1 - sender_);
  there_ = net::RemoteRegion::unpack(ConstView(all.data() + receiver * packed.size(), packed.size()));
}

task::Task<void> FabricRing::send(std::uint64_t number, CallBuffer& call) {
  const View whole = call.whole();
  const CallHead head{number, whole.size() - CallBuffer::kHead};
  std::memcpy(whole.data(), &head, sizeof head);
  for (std::size_t at = 0; at < whole.size(); at += kChunk) {
    co_await send_chunk(whole.slice(at, std::min(kChunk, whole.size() - at)));
  }
}

task::Task<void> FabricRing::drained() {
  net::AwaitSignalOp answered(rank_.transport(), peer(), net::Tag{}, signals_ + 1, chunk_);
  co_await answered;
}

task::Task<void> FabricRing::send_chunk(ConstView chunk) {
  ++chunk_;
  if (chunk_ > kChunks) {
    net::AwaitSignalOp free(rank_.transport(), peer(), net::Tag{}, signals_ + 1, chunk_ - kChunks);
    co_await free;
  }
  net::PutOp put(rank_.transport(), chunk, &there_, chunk_ % kChunks * kChunk, {peer(), signals_}, chunk_);
  co_await put;
}

task::Task<bool> FabricRing::take(std::uint64_t number, View target) {
  const std::size_t whole = CallBuffer::kHead + target.size();
  CallHead head;
  for (std::size_t at = 0; at < whole; at += kChunk) {
    const std::size_t skip = at == 0 ? CallBuffer::kHead : 0;
    const ConstView chunk = co_await await_chunk(std::min(kChunk, whole - at));
    if (at == 0) std::memcpy(&head, chunk.data(), sizeof head);
    std::memcpy(target.data() + at + skip - CallBuffer::kHead, chunk.data() + skip, chunk.size() - skip);
    if (chunk_ - given_back_ >= kChunks / 2) {
      co_await give_back();
    }
  }
  co_return head.number == number&& head.bytes == target.size();
}

task::Task<void> FabricRing::give_back() {
  if (given_back_ == chunk_) co_return;
  given_back_ = chunk_;
  net::PutOp credit(rank_.transport(), {}, nullptr, 0, {peer(), signals_ + 1}, chunk_);
  co_await credit;
}

task::Task<ConstView> FabricRing::await_chunk(std::size_t bytes) {
  ++chunk_;
  net::AwaitSignalOp arrived(rank_.transport(), peer(), net::Tag{}, signals_, chunk_);
  co_await arrived;
  co_return ConstView(ring_.bytes().data() + chunk_ % kChunks * kChunk, bytes);
}

}  // namespace taxon::bench
