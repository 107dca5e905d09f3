// An RPC over the same fabric, as gRPC over RDMA is built (arXiv 1805.08430, "gRPC.RDMA"): the library does
// not know where the receiver wants a message, so it goes through a ring of private buffers: copied into the
// ring by the sender, and out of it into the tensor by the receiver, chunk by chunk, calls back to back.
// --rank --ranks --host --port as every side; --job-port: for the control network.
#include <chrono>
#include <cstring>
#include <vector>

#include "comm/collectives.h"
#include "ours/rank.h"
#include "side/tensors.h"

namespace taxon::bench {
namespace {

constexpr std::size_t kChunk = 256 << 10;
constexpr std::uint64_t kChunks = 8;

/// In front of each call's first chunk: all that the receiver knows of it.
struct CallHead {
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
};

class RpcSide final : public TensorSide {
 public:
  explicit RpcSide(OwnRank& rank) : rank_(rank) {
    const std::function<task::Task<void>()> open = [this] { return share(); };
    rank_.perform(open);
  }
  ~RpcSide() override {
    const std::function<task::Task<void>()> end = [this] { return leave(); };
    rank_.perform(end);
  }

  void prepare(const TensorContent& content, const std::string&) override {
    content_ = content;
    consumer_.prepare(content);
    tensor_.assign(content.elements(), 0.0F);
    content_.fill(tensor_.data());
    stamped_ = 0;
  }

  double run(std::uint64_t first, std::uint64_t count) override {
    first_ = first;
    count_ = count;
    consumer_.begin();
    const std::function<task::Task<void>()> block = [this] { return run_block(); };
    rank_.perform(block);
    return seconds_;
  }

  bool right() const override { return consumer_.right(); }
  std::string detail() const override { return "ring of 8 x 256 KiB"; }

 private:
  bool sends() const { return rank_.group().rank() == 0; }
  net::Transport& net() const { return rank_.transport(); }
  std::size_t bytes() const { return tensor_.size() * sizeof(float); }

  task::Task<void> share() {
    ring_ = net().allocate(kChunks * kChunk);
    signals_ = net().allot_signals(2);
    auto packed = ring_.share().pack();
    auto asking = rank_.group().gather(rank_.group().begin(net::Operation::User, 0),
                                       ConstView(packed.data(), packed.size()));
    const auto all = co_await asking;
    there_ = net::RemoteRegion::unpack(ConstView(all.data() + packed.size(), packed.size()));  // rank 1's
  }

  task::Task<void> leave() {
    auto met = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await met;
    ring_ = {};
  }

  task::Task<void> run_block() {
    auto entered = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await entered;
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t number = first_; number < first_ + count_; ++number) {
      auto call = sends() ? send_call(number) : take_call(number);
      co_await call;
    }
    if (sends()) {  // the last answer
      net::AwaitSignalOp answered(net(), Rank(1), net::Tag{}, signals_ + 1, chunk_);
      co_await answered;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds_ = took.count();
  }

  task::Task<void> send_call(std::uint64_t number) {
    content_.stamp(tensor_.data(), stamped_, number);
    stamped_ = number;
    const auto* data = reinterpret_cast<const std::byte*>(tensor_.data());
    CallHead head{number, bytes()};
    auto first = send_chunk(ConstView(reinterpret_cast<const std::byte*>(&head), sizeof head));
    co_await first;
    for (std::size_t at = 0; at < bytes(); at += kChunk) {
      auto sent = send_chunk(ConstView(data + at, std::min(kChunk, bytes() - at)));
      co_await sent;
    }
  }

  task::Task<void> send_chunk(ConstView chunk) {
    ++chunk_;
    if (chunk_ > kChunks) {
      net::AwaitSignalOp free(net(), Rank(1), net::Tag{}, signals_ + 1, chunk_ - kChunks);
      co_await free;
    }
    net::PutOp put(net(), chunk, &there_, chunk_ % kChunks * kChunk, {Rank(1), signals_}, chunk_);
    co_await put;
  }

  task::Task<void> take_call(std::uint64_t number) {
    CallHead head;
    auto first = take_chunk(View(reinterpret_cast<std::byte*>(&head), sizeof head));
    co_await first;
    if (head.number != number || head.bytes != bytes()) consumer_.fail();
    auto* data = reinterpret_cast<std::byte*>(tensor_.data());
    for (std::size_t at = 0; at < bytes(); at += kChunk) {
      auto taken = take_chunk(View(data + at, std::min(kChunk, bytes() - at)));
      co_await taken;
    }
    consumer_.take(tensor_.data(), number);
    net::PutOp answer(net(), {}, nullptr, 0, {Rank(0), signals_ + 1}, chunk_);
    co_await answer;
  }

  /// The last chunk of a call is given back with the answer.
  task::Task<void> take_chunk(View target) {
    ++chunk_;
    if (chunk_ > 1) {
      net::PutOp free(net(), {}, nullptr, 0, {Rank(0), signals_ + 1}, chunk_ - 1);
      co_await free;
    }
    net::AwaitSignalOp arrived(net(), Rank(0), net::Tag{}, signals_, chunk_);
    co_await arrived;
    std::memcpy(target.data(), ring_.bytes().data() + chunk_ % kChunks * kChunk, target.size());
  }

  OwnRank& rank_;
  net::Region ring_;
  net::RemoteRegion there_;
  std::uint32_t signals_ = 0;  // of rank 1: chunks that came; the next one, of rank 0: chunks that are free
  std::uint64_t chunk_ = 0;
  TensorContent content_{1};
  Consumer consumer_;
  std::vector<float> tensor_;
  std::uint64_t stamped_ = 0;
  std::uint64_t first_ = 0, count_ = 0;
  double seconds_ = 0;
};

void serve_requests(CommandChannel& channel, OwnRank& rank) {
  RpcSide side(rank);
  serve(channel, [&](const Request& request) { return measure(side, request); });
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  return taxon::bench::run_own_side(argc, argv, taxon::bench::serve_requests);
}
