// An RPC over the same fabric (peers/fabric_ring.h): a tensor is a call, calls back to back.
// --rank --ranks --host --port as every side; --job-port: for the control network.
#include <chrono>
#include <vector>

#include "comm/collectives.h"
#include "peers/fabric_ring.h"
#include "side/tensors.h"

namespace taxon::bench {
namespace {

class RpcSide final : public TensorSide {
 public:
  explicit RpcSide(OwnRank& rank) : rank_(rank), ring_(std::make_unique<FabricRing>(rank, 0)) {
    const std::function<task::Task<void>()> open = [this] { return ring_->open(); };
    rank_.perform(open);
  }
  ~RpcSide() override {
    const std::function<task::Task<void>()> end = [this] { return leave(); };
    rank_.perform(end);
  }

  void prepare(const TensorContent& content, const std::string&) override {
    content_ = content;
    consumer_.prepare(content);
    call_ = CallBuffer(content.elements());
    tensor_.assign(content.elements(), 0.0F);
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

  task::Task<void> leave() {
    auto met = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await met;
    ring_.reset();
  }

  task::Task<void> run_block() {
    auto entered = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await entered;
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t number = first_; number < first_ + count_; ++number) {
      auto call = sends() ? send_call(number) : take_call(number);
      co_await call;
    }
    auto end = sends() ? ring_->drained() : ring_->give_back();
    co_await end;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds_ = took.count();
  }

  task::Task<void> send_call(std::uint64_t number) {
    content_.write(call_.payload(), number);
    co_await ring_->send(number, call_);
  }

  task::Task<void> take_call(std::uint64_t number) {
    const bool expected = co_await ring_->take(number, as_view(std::span<float>(tensor_)));
    if (!expected) consumer_.fail();
    consumer_.take(tensor_.data(), number);
  }

  OwnRank& rank_;
  std::unique_ptr<FabricRing> ring_;
  TensorContent content_{1};
  Consumer consumer_;
  CallBuffer call_{1};         // the sender's
  std::vector<float> tensor_;  // the receiver's
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
