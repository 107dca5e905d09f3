#include "peers/fabric_ring.h"

#include <algorithm>
#include <cstring>

namespace taxon::bench {
namespace {

/// In front of each call's first chunk: all that the receiver knows of it.
struct CallHead {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};

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

task::Task<void> FabricRing::send(std::uint64_t number, ConstView bytes) {
  CallHead head{number, bytes.size()};
  auto first = send_chunk(ConstView(reinterpret_cast<const std::byte*>(&head), sizeof head));
  co_await first;
  for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
    auto sent = send_chunk(bytes.slice(at, std::min(kChunk, bytes.size() - at)));
    co_await sent;
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
  CallHead head;
  auto first = take_chunk(View(reinterpret_cast<std::byte*>(&head), sizeof head));
  co_await first;
  const bool expected = head.number == number && head.bytes == target.size();
  for (std::size_t at = 0; at < target.size(); at += kChunk) {
    auto taken = take_chunk(target.slice(at, std::min(kChunk, target.size() - at)));
    co_await taken;
  }
  co_return expected;
}

task::Task<void> FabricRing::give_back() {
  net::PutOp answer(rank_.transport(), {}, nullptr, 0, {peer(), signals_ + 1}, chunk_);
  co_await answer;
}

/// A chunk is given back when the next one is taken, the last one of a call with the answer.
task::Task<void> FabricRing::take_chunk(View target) {
  ++chunk_;
  if (chunk_ > 1) {
    net::PutOp free(rank_.transport(), {}, nullptr, 0, {peer(), signals_ + 1}, chunk_ - 1);
    co_await free;
  }
  net::AwaitSignalOp arrived(rank_.transport(), peer(), net::Tag{}, signals_, chunk_);
  co_await arrived;
  std::memcpy(target.data(), ring_.bytes().data() + chunk_ % kChunks * kChunk, target.size());
}

}  // namespace taxon::bench
