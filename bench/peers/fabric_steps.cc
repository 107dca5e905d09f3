// Training steps with a parameter server by an RPC over the same fabric (peers/fabric_ring.h): a gradient is
// a call, and so is a variable on its way back; both directions at a time.
// --rank --ranks --host --port as every side; --job-port: for the control network.
#include "comm/collectives.h"
#include "peers/fabric_ring.h"
#include "side/steps.h"
#include "task/scope.h"

namespace taxon::bench {
namespace {

class RpcSteps final : public StepSide {
 public:
  explicit RpcSteps(OwnRank& rank)
      : rank_(rank),
        up_(std::make_unique<FabricRing>(rank, 0)),
        down_(std::make_unique<FabricRing>(rank, 1)) {
    perform([this] { return open(); });
  }
  ~RpcSteps() override {
    perform([this] { return leave(); });
  }

  void prepare(const std::vector<std::size_t>& variables, const std::string&) override {
    check_.begin(variables);
    own_.clear();
    taken_.clear();
    for (const std::size_t elements : variables) {
      own_.emplace_back(elements);
      taken_.emplace_back(elements);
    }
  }

  std::vector<double> run(const StepRun& run) override {
    run_ = run;
    seconds_.clear();
    perform([this] { return works() ? work() : serve(); });
    return seconds_;
  }

  bool right() const override { return check_.right(); }
  std::string detail() const override { return "rings of 8 x 256 KiB"; }

 private:
  bool works() const { return rank_.group().rank() == 0; }
  void perform(const std::function<task::Task<void>()>& work) { rank_.perform(work); }

  task::Task<void> meet() {
    auto met = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await met;
  }
  task::Task<void> open() {
    co_await up_->open();
    co_await down_->open();
  }
  task::Task<void> leave() {
    co_await meet();
    up_.reset();
    down_.reset();
  }

  task::Task<void> work() {
    co_await meet();
    for (std::uint64_t number = run_.first; number < run_.first + run_.count; ++number) {
      const auto begin = replay_.compute(run_.compute);
      check_.expect(number);
      task::Scope pushing(rank_.transport().pending());
      pushing.spawn(push(number));
      co_await pull(number);
      co_await pushing.join();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      seconds_.push_back(took.count());
    }
  }

  task::Task<void> push(std::uint64_t number) {
    for (std::size_t v = 0; v < own_.size(); ++v) {
      write_pattern(own_[v].payload(), taken_[v].size(), number);
      co_await up_->send(number, own_[v]);
    }
  }

  task::Task<void> pull(std::uint64_t number) {
    for (std::size_t v = 0; v < taken_.size(); ++v) {
      const bool expected = co_await down_->take(number, as_view(std::span(taken_[v])));
      if (!expected) check_.fail();
      check_.use(v, taken_[v].data());
    }
  }

  task::Task<void> serve() {
    co_await meet();
    for (std::uint64_t number = run_.first; number < run_.first + run_.count; ++number)
      for (std::size_t v = 0; v < own_.size(); ++v) {
        const bool expected = co_await up_->take(number, as_view(std::span(taken_[v])));
        if (!expected) throw std::runtime_error("a call of another step came");
        add_to(own_[v].payload(), taken_[v].data(), taken_[v].size());
        co_await down_->send(number, own_[v]);
      }
  }

  OwnRank& rank_;
  std::unique_ptr<FabricRing> up_, down_;
  PulledCheck check_;
  std::vector<CallBuffer> own_;            // gradients at the worker, variables at the server
  std::vector<std::vector<float>> taken_;  // the other's, copied out of the ring
  StepRun run_;
  Replay replay_;
  std::vector<double> seconds_;
};

void serve_requests(CommandChannel& channel, OwnRank& rank) {
  RpcSteps side(rank);
  serve_steps(channel, side);
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  return taxon::bench::run_own_side(argc, argv, taxon::bench::serve_requests);
}
