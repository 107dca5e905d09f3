// Training steps with a parameter server over Taxon's tensor channels, between two ranks of one host:
//   put       static: gradients are written into the server's memory, variables into the worker's
//   in_place  dynamic: the server adds gradients out of the worker's memory, where they were made, and the
//             worker uses variables in the server's
// --rank --ranks --host --port as every side; --job-port: for the control network.
#include "side/steps.h"

#include <algorithm>
#include <optional>

#include "comm/collectives.h"
#include "comm/tensors/dynamic.h"
#include "comm/tensors/static.h"
#include "ours/rank.h"

namespace taxon::bench {
namespace {

using comm::DynamicReceiver;
using comm::DynamicSender;
using comm::ReceivedTensor;
using comm::StaticReceiver;
using comm::StaticSender;
using comm::TensorBlock;
using comm::TensorShape;

/// Both directions between this rank and the other, for tensors of so many elements. own(v) is the memory of
/// what this rank sends: a gradient at the worker, a variable at the server.
class Lines {
 public:
  Lines(OwnRank& rank, const std::vector<std::size_t>& elements) : rank_(rank) {
    for (const std::size_t count : elements)
      shapes_.push_back(TensorShape::of(DType::Float32, {static_cast<std::int64_t>(count)}));
  }
  virtual ~Lines() = default;
  virtual task::Task<void> open() = 0;
  virtual float* own(std::size_t v) = 0;
  virtual task::Task<void> send(std::size_t v) = 0;
  virtual task::Task<ReceivedTensor> receive(std::size_t v) = 0;
  virtual task::Task<void> release(std::size_t v, ReceivedTensor tensor) = 0;
  /// REQUIRES: everything is released.
  virtual task::Task<void> close() = 0;
  virtual std::string describe() const = 0;

  std::size_t size() const { return shapes_.size(); }

 protected:
  bool sends(int from) const { return from == rank_.group().rank(); }
  void make_arena() {
    std::size_t bytes = std::size_t{1} << 20;
    for (const TensorShape& shape : shapes_) bytes += (shape.bytes() + 4095) / 4096 * 4096;
    constexpr std::size_t kMetadata = 256;  // of a tensor, at most
    arena_.emplace(rank_.transport(),
                   comm::TensorArenaOptions{.bytes = bytes,
                                            .blocks = static_cast<std::uint32_t>(shapes_.size()) + 8,
                                            .control = 16384 + kMetadata * shapes_.size()});
  }
  OwnRank& rank_;
  std::vector<TensorShape> shapes_;
  std::optional<comm::TensorArena> arena_;
};

/// A channel for each tensor and direction: one place, where the tensor is used.
class StaticLines final : public Lines {
 public:
  using Lines::Lines;

  task::Task<void> open() override {
    make_arena();
    comm::Communicator& group = rank_.group();
    for (const TensorShape& shape : shapes_) own_.emplace_back(shape.bytes() / sizeof(float));
    for (int from = 0; from < 2; ++from)  // in the same order at both ends
      for (std::size_t v = 0; v < size(); ++v) {
        const comm::TensorRoute route{from, 1 - from, static_cast<std::uint32_t>(v)};
        if (sends(from)) {
          auto opening = StaticSender::open(group, route, shapes_[v], {.depth = 1});
          auto sender = co_await opening;
          senders_.push_back(std::move(sender));
        } else {
          auto opening = StaticReceiver::open(group, *arena_, route, shapes_[v], {.depth = 1});
          auto receiver = co_await opening;
          receivers_.push_back(std::move(receiver));
        }
      }
  }
  float* own(std::size_t v) override { return own_[v].data(); }
  task::Task<void> send(std::size_t v) override { return senders_[v]->send(as_view(std::span(own_[v]))); }
  task::Task<ReceivedTensor> receive(std::size_t v) override { return receivers_[v]->receive(); }
  task::Task<void> release(std::size_t v, ReceivedTensor tensor) override {
    return receivers_[v]->release(std::move(tensor));
  }
  task::Task<void> close() override {
    for (int from = 0; from < 2; ++from)
      for (std::size_t v = 0; v < size(); ++v) {
        auto closed = sends(from) ? senders_[v]->close() : receivers_[v]->close();
        co_await closed;
      }
  }
  std::string describe() const override { return senders_.front()->describe(); }

 private:
  std::vector<std::vector<float>> own_;
  std::vector<std::unique_ptr<StaticSender>> senders_;
  std::vector<std::unique_ptr<StaticReceiver>> receivers_;
};

/// One channel for each direction; tensors stay where they were made.
class DynamicLines final : public Lines {
 public:
  using Lines::Lines;

  task::Task<void> open() override {
    make_arena();
    const comm::TensorOptions options{.depth = static_cast<std::uint32_t>(size())};
    for (int from = 0; from < 2; ++from) {
      const comm::TensorRoute route{from, 1 - from, 0};
      if (sends(from)) {
        sender_ = co_await DynamicSender::open(rank_.group(), *arena_, route, options);
      } else {
        receiver_ =
            co_await DynamicReceiver::open(rank_.group(), *arena_, route, options, comm::TensorRead::InPlace);
      }
    }
    for (const TensorShape& shape : shapes_) {
      auto allocating = arena_->allocate(shape.bytes(), "sent every step");
      TensorBlock block = co_await allocating;
      std::ranges::fill(as_span<float>(block.bytes()), 0.0F);
      own_.push_back(std::move(block));
    }
  }
  /// Written into although the channel holds the block from the step before: in the worker's memory the
  /// server has added it before it sent the variable, and the worker releases a step's variables before it
  /// pushes the next gradients.
  float* own(std::size_t v) override { return as_span<float>(own_[v].bytes()).data(); }
  task::Task<void> send(std::size_t v) override { return sender_->send(own_[v], shapes_[v]); }
  task::Task<ReceivedTensor> receive(std::size_t) override { return receiver_->receive(); }
  task::Task<void> release(std::size_t, ReceivedTensor tensor) override {
    return receiver_->release(std::move(tensor));
  }
  task::Task<void> close() override {
    for (int from = 0; from < 2; ++from) {
      auto closed = sends(from) ? sender_->close() : receiver_->close();
      co_await closed;
    }
  }
  std::string describe() const override { return sender_->describe(); }

 private:
  std::vector<TensorBlock> own_;
  std::unique_ptr<DynamicSender> sender_;
  std::unique_ptr<DynamicReceiver> receiver_;
};

std::unique_ptr<Lines> lines_of(const std::string& way, OwnRank& rank,
                                const std::vector<std::size_t>& elements) {
  if (way == "put") return std::make_unique<StaticLines>(rank, elements);
  if (way == "in_place") return std::make_unique<DynamicLines>(rank, elements);
  throw std::runtime_error("unknown way " + way);
}

class ChannelSteps final : public StepSide {
 public:
  explicit ChannelSteps(OwnRank& rank) : rank_(rank) {}
  ~ChannelSteps() override {
    perform([this] { return close(); });
  }

  void prepare(const std::vector<std::size_t>& variables, const std::string& way) override {
    perform([this] { return close(); });
    lines_ = lines_of(way, rank_, variables);
    perform([this] { return lines_->open(); });
    detail_ = lines_->describe();
    check_.begin(variables);
    elements_ = variables;
  }

  std::vector<double> run(const StepRun& run) override {
    run_ = run;
    seconds_.clear();
    perform([this] { return works() ? work() : serve(); });
    return seconds_;
  }

  bool right() const override { return check_.right(); }
  std::string detail() const override { return detail_; }

 private:
  bool works() const { return rank_.group().rank() == 0; }
  void perform(const std::function<task::Task<void>()>& work) { rank_.perform(work); }

  task::Task<void> meet() {
    auto met = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await met;
  }

  task::Task<void> close() {
    if (!lines_) co_return;
    co_await release_all();
    co_await lines_->close();
    co_await meet();
    lines_.reset();
  }

  task::Task<void> release_all() {
    for (std::size_t v = 0; v < pulled_.size(); ++v) {
      co_await lines_->release(v, std::move(pulled_[v]));
    }
    pulled_.clear();
  }

  task::Task<void> work() {
    co_await meet();
    for (std::uint64_t number = run_.first; number < run_.first + run_.count; ++number) {
      const auto begin = replay_.compute(run_.compute);  // with the variables of the step before
      co_await exchange(number);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      seconds_.push_back(took.count());
    }
  }

  task::Task<void> exchange(std::uint64_t number) {
    co_await release_all();
    for (std::size_t v = 0; v < elements_.size(); ++v) {
      write_pattern(lines_->own(v), elements_[v], number);
      co_await lines_->send(v);
    }
    check_.expect(number);
    for (std::size_t v = 0; v < elements_.size(); ++v) {
      ReceivedTensor tensor = co_await lines_->receive(v);
      check_.use(v, as_span<float>(tensor.bytes()).data());
      pulled_.push_back(std::move(tensor));
    }
  }

  task::Task<void> serve() {
    co_await meet();
    for (std::uint64_t step = 0; step < run_.count; ++step)
      for (std::size_t v = 0; v < elements_.size(); ++v) {
        ReceivedTensor gradient = co_await lines_->receive(v);
        add_to(lines_->own(v), as_span<float>(gradient.bytes()).data(), elements_[v]);
        co_await lines_->release(v, std::move(gradient));
        co_await lines_->send(v);
      }
  }

  OwnRank& rank_;
  std::unique_ptr<Lines> lines_;
  std::vector<std::size_t> elements_;
  PulledCheck check_;
  std::vector<ReceivedTensor> pulled_;  // the worker's variables
  StepRun run_;
  Replay replay_;
  std::vector<double> seconds_;
  std::string detail_;
};

void serve_requests(CommandChannel& channel, OwnRank& rank) {
  ChannelSteps side(rank);
  serve_steps(channel, side);
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  return taxon::bench::run_own_side(argc, argv, taxon::bench::serve_requests);
}
