// Taxon's all-reduce: the row that the table gives for the size and the transport, or the one that the
// variant names. In place, in a region of the transport, as gradients are. Variants reduce_scatter and
// all_gather: the sum's two halves, one after the other, of which the named one is timed.
// --rank --ranks --host --port as every side; --job-port: for the control network.
#include "comm/collectives.h"

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <map>
#include <utility>

#include "exchange/levels/algorithm_selection.h"
#include "ours/rank.h"
#include "side/side.h"

namespace taxon::bench {
namespace {

class OwnAllReduce final : public AllReduce {
 public:
  explicit OwnAllReduce(OwnRank& rank) : rank_(rank) {}

  Buffers prepare(std::size_t elements, const std::string& variant) override {
    bytes_ = elements * sizeof(float);
    const std::function<task::Task<void>()> share = [this] { return share_region(); };
    rank_.perform(share);
    choose(variant.empty() || variant == "in_place" ? "auto" : variant);
    auto* data = reinterpret_cast<float*>(call_.data.data());
    return {.input = data, .output = data};
  }

  double run(int iterations) override {
    iterations_ = iterations;
    const std::function<task::Task<void>()> block = [this] { return run_block(); };
    rank_.perform(block);
    return seconds_;
  }

  std::string detail() const override {
    const comm::Communicator& group = rank_.group();
    const Rank next = group.global((group.rank() + 1) % group.size());
    return std::string(all_reduce_->name) + " over " + rank_.transport().path(next).name;
  }
  /// Processor seconds of this process in all blocks since the last call.
  double take_cpu_seconds() { return std::exchange(cpu_seconds_, 0); }

 private:
  task::Task<void> share_region() {
    net::Region& region = regions_[bytes_];
    if (!region) {
      region = rank_.transport().allocate(bytes_);
      co_await rank_.group().share(region);
    }
    call_.data = region.bytes();
  }

  void choose(const std::string& name) {
    const comm::Communicator& group = rank_.group();
    const comm::Shape shape{
        .size = group.size(), .bytes = bytes_, .shares_memory = group.peers(call_.data).mapped()};
    timed_half_ = name == "reduce_scatter" ? 0 : name == "all_gather" ? 1 : -1;
    if (timed_half_ < 0) {
      all_reduce_ = &exchange::choose(net::Operation::AllReduce, name, shape);
    } else {
      halves_[0] = &exchange::choose(net::Operation::ReduceScatter, "auto", shape);
      halves_[1] = &exchange::choose(net::Operation::AllGather, "auto", shape);
      all_reduce_ = halves_[static_cast<std::size_t>(timed_half_)];
    }
    barrier_ = &exchange::choose(net::Operation::Barrier, "auto", shape);
  }

  task::Task<void> run_block() {
    co_await barrier_->run(rank_.group(), call_);
    const double cpu_before = cpu_seconds();
    const auto begin = std::chrono::steady_clock::now();
    seconds_ = 0;
    for (int i = 0; i < iterations_; ++i) {
      if (timed_half_ < 0)
        co_await all_reduce_->run(rank_.group(), call_);
      else
        co_await run_halves();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (timed_half_ < 0) seconds_ = took.count();
    seconds_ /= iterations_;
    cpu_seconds_ += cpu_seconds() - cpu_before;
  }

  task::Task<void> run_halves() {
    for (std::size_t half = 0; half < 2; ++half) {
      co_await barrier_->run(rank_.group(), call_);
      const auto begin = std::chrono::steady_clock::now();
      co_await halves_[half]->run(rank_.group(), call_);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (static_cast<int>(half) == timed_half_) seconds_ += took.count();
    }
  }

  static double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  OwnRank& rank_;
  std::map<std::size_t, net::Region> regions_;  // by size
  std::size_t bytes_ = 0;
  comm::Call call_;
  const comm::CollectiveRow* all_reduce_ = nullptr;
  const comm::CollectiveRow* barrier_ = nullptr;
  std::array<const comm::CollectiveRow*, 2> halves_{};  // of the sum, in their order
  int timed_half_ = -1;                                 // none: the sum is one collective
  int iterations_ = 0;
  double seconds_ = 0;
  double cpu_seconds_ = 0;
};

void serve_requests(CommandChannel& channel, OwnRank& rank) {
  OwnAllReduce side(rank);
  serve(channel, [&](const Request& request) {
    Outcome outcome = measure(side, channel.place(), request);
    outcome.sums = {side.take_cpu_seconds()};
    return outcome;
  });
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  return taxon::bench::run_own_side(argc, argv, taxon::bench::serve_requests);
}
