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
    gradients_ = {variables.begin(), variables.end()};
    stamped_ = 0;
    own_.clear();
    taken_.clear();
    for (const GradientContent& gradient : gradients_) {
      own_.emplace_back(gradient.elements());
      taken_.emplace_back(gradient.elements());
      if (works()) gradient.fill(own_.back().data());
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
    auto first = up_->open();
    co_await first;
    auto second = down_->open();
    co_await second;
  }
  task::Task<void> leave() {
    auto met = meet();
    co_await met;
    up_.reset();
    down_.reset();
  }

  task::Task<void> work() {
    auto met = meet();
    co_await met;
    for (std::uint64_t number = run_.first; number < run_.first + run_.count; ++number) {
      const auto begin = replay_.compute(run_.compute);
      task::Scope pushing(rank_.transport().waits());
      pushing.spawn(push(number));
      auto pulling = pull(number);
      co_await pulling;
      auto pushed = pushing.join();
      co_await pushed;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      seconds_.push_back(took.count());
    }
    for (std::size_t v = 0; run_.compares && v < taken_.size(); ++v)
      check_.compare(v, taken_[v].data(), run_.first + run_.count - 1);
  }

  task::Task<void> push(std::uint64_t number) {
    for (std::size_t v = 0; v < own_.size(); ++v) {
      gradients_[v].stamp(own_[v].data(), stamped_, number);
      auto sent = up_->send(number, as_view(std::span(own_[v])));
      co_await sent;
    }
    stamped_ = number;
  }

  task::Task<void> pull(std::uint64_t number) {
    for (std::size_t v = 0; v < taken_.size(); ++v) {
      auto taking = down_->take(number, as_view(std::span(taken_[v])));
      const bool expected = co_await taking;
      if (!expected) check_.fail();
      auto given = down_->give_back();
      co_await given;
      check_.use(v, taken_[v].data(), number);
    }
  }

  task::Task<void> serve() {
    auto met = meet();
    co_await met;
    for (std::uint64_t number = run_.first; number < run_.first + run_.count; ++number)
      for (std::size_t v = 0; v < own_.size(); ++v) {
        auto taking = up_->take(number, as_view(std::span(taken_[v])));
        const bool expected = co_await taking;
        if (!expected) throw std::runtime_error("a call of another step came");
        auto given = up_->give_back();
        co_await given;
        add_to(own_[v].data(), taken_[v].data(), own_[v].size());
        auto sent = down_->send(number, as_view(std::span(own_[v])));
        co_await sent;
      }
  }

  OwnRank& rank_;
  std::unique_ptr<FabricRing> up_, down_;
  std::vector<GradientContent> gradients_;
  PulledCheck check_;
  std::vector<std::vector<float>> own_;    // gradients at the worker, variables at the server
  std::vector<std::vector<float>> taken_;  // the other's, copied out of the ring
  std::uint64_t stamped_ = 0;
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
