// Taxon's tensor channels between two ranks of one host, one of these ways:
//   put       static: written into the receiver's memory, which consumes it there
//   in_place  dynamic: the receiver consumes it in the sender's memory
//   copied    the same for a tensor that was born elsewhere, after one copy by the sender
//   dynamic   dynamic: the receiver copies it out of the sender's memory
//   written   put of one tensor again and again, and the receiver does not look at the payload
//   pingpong  put, forth and back; a "transfer" is one of the two ways
// --rank --ranks --host --port as every side; --job-port: for the control network.
#include "side/tensors.h"

#include <chrono>
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

constexpr std::uint32_t kDepth = 2;

enum class Way { Put, InPlace, Copied, Dynamic, Written, PingPong };

Way way_of(const std::string& variant) {
  constexpr std::pair<const char*, Way> kWays[] = {{"put", Way::Put},         {"in_place", Way::InPlace},
                                                   {"copied", Way::Copied},   {"dynamic", Way::Dynamic},
                                                   {"written", Way::Written}, {"pingpong", Way::PingPong}};
  for (const auto& [name, way] : kWays)
    if (variant == name) return way;
  throw std::runtime_error("unknown variant " + variant);
}

float* floats(View bytes) { return reinterpret_cast<float*>(bytes.data()); }

/// What lives from one request to the next.
class ChannelSide final : public TensorSide {
 public:
  explicit ChannelSide(OwnRank& rank) : rank_(rank) {}
  ~ChannelSide() override {
    const std::function<task::Task<void>()> end = [this] { return close(); };
    rank_.perform(end);
  }

  void prepare(const TensorContent& content, const std::string& variant) override {
    content_ = content;
    consumer_.prepare(content);
    way_ = way_of(variant);
    const std::function<task::Task<void>()> open = [this] { return reopen(); };
    rank_.perform(open);
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
  std::string detail() const override { return detail_; }

 private:
  bool sends() const { return rank_.group().rank() == 0; }
  bool is_static() const { return way_ == Way::Put || way_ == Way::Written || way_ == Way::PingPong; }

  task::Task<void> close() {
    for (int from = 0; from < 2; ++from) {  // in the same order at both ends
      if (from == rank_.group().rank() && static_sender_) {
        co_await static_sender_->close();
      }
      if (from != rank_.group().rank() && static_receiver_) {
        co_await static_receiver_->close();
      }
    }
    if (sender_) {
      co_await sender_->close();
    }
    if (receiver_) {
      co_await receiver_->close();
    }
    static_sender_.reset();
    static_receiver_.reset();
    blocks_.clear();
    sender_.reset();
    receiver_.reset();
    auto met = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await met;
    arena_.reset();
  }

  task::Task<void> reopen() {
    co_await close();
    comm::Communicator& group = rank_.group();
    const auto elements = static_cast<std::int64_t>(content_.elements());
    shape_ = TensorShape::of(DType::Float32, {elements});
    const std::size_t each = (shape_.bytes() + 4095) / 4096 * 4096;
    arena_.emplace(rank_.transport(), comm::TensorArenaOptions{.bytes = (kDepth + 1) * each});
    if (is_static()) {
      co_await open_static(group);
    } else {
      co_await open_dynamic(group);
    }
    outside_.assign(content_.elements(), 0.0F);
  }

  task::Task<void> open_static(comm::Communicator& group) {
    const int routes = way_ == Way::PingPong ? 2 : 1;
    for (int from = 0; from < routes; ++from) {
      const comm::TensorRoute route{from, 1 - from, 0};
      if (route.sender == group.rank()) {
        auto opening = StaticSender::open(group, route, shape_, {.depth = kDepth});
        static_sender_ = co_await opening;
        detail_ = static_sender_->describe();
      } else {
        auto opening = StaticReceiver::open(group, *arena_, route, shape_, {.depth = kDepth});
        static_receiver_ = co_await opening;
      }
    }
  }

  task::Task<void> open_dynamic(comm::Communicator& group) {
    if (!sends()) {
      const auto read = way_ == Way::Dynamic ? comm::TensorRead::Copied : comm::TensorRead::InPlace;
      auto opening = DynamicReceiver::open(group, *arena_, {}, {.depth = kDepth}, read);
      receiver_ = co_await opening;
      co_return;
    }
    auto opening = DynamicSender::open(group, *arena_, {}, {.depth = kDepth});
    sender_ = co_await opening;
    detail_ = sender_->describe();
    if (way_ == Way::Copied) co_return;
    // One more than the receiver may hold, so that the next one can be made meanwhile.
    for (std::uint32_t i = 0; i <= kDepth; ++i) {
      auto allocating = arena_->allocate(shape_.bytes(), "sent in turn");
      TensorBlock block = co_await allocating;
      blocks_.push_back(std::move(block));
    }
  }

  task::Task<void> run_block() {
    auto entered = comm::find_row(net::Operation::Barrier, "dissemination").run(rank_.group(), {});
    co_await entered;
    const auto begin = std::chrono::steady_clock::now();
    auto task = way_ == Way::PingPong ? play()
                : is_static()         ? (sends() ? send_static() : receive_static())
                                      : (sends() ? send_dynamic() : receive_dynamic());
    co_await task;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds_ = took.count() / (way_ == Way::PingPong ? 2 : 1);
  }

  /// The producer: writes all of it, but for `written`, which stands beside a test that writes nothing.
  View produced(std::uint64_t number) {
    if (way_ != Way::Written || number <= kWarmUp) content_.write(outside_.data(), number);
    return as_view(std::span<float>(outside_));
  }

  task::Task<void> send_static() {
    for (std::uint64_t number = first_; number < first_ + count_; ++number) {
      co_await static_sender_->send(produced(number));
    }
  }

  task::Task<void> receive_static() {
    for (std::uint64_t number = first_; number < first_ + count_; ++number) {
      ReceivedTensor tensor = co_await static_receiver_->receive();
      if (way_ != Way::Written || number <= kWarmUp) consumer_.take(floats(tensor.bytes()), number);
      co_await static_receiver_->release(std::move(tensor));
    }
  }

  task::Task<void> play() {
    for (std::uint64_t number = first_; number < first_ + count_; ++number)
      for (int from = 0; from < 2; ++from) {
        if (from == rank_.group().rank()) {
          co_await static_sender_->send(produced(number));
          continue;
        }
        ReceivedTensor tensor = co_await static_receiver_->receive();
        consumer_.take(floats(tensor.bytes()), number);
        co_await static_receiver_->release(std::move(tensor));
      }
  }

  task::Task<void> send_dynamic() {
    for (std::uint64_t number = first_; number < first_ + count_; ++number) {
      if (way_ == Way::Copied) {
        co_await sender_->send_copy(produced(number), shape_);
        continue;
      }
      // The receiver has released this block's last use: send() waited for the credit of the one before.
      TensorBlock& block = blocks_[number % blocks_.size()];
      content_.write(floats(block.bytes()), number);
      co_await sender_->send(block, shape_);
    }
  }

  task::Task<void> receive_dynamic() {
    for (std::uint64_t number = first_; number < first_ + count_; ++number) {
      ReceivedTensor tensor = co_await receiver_->receive();
      consumer_.take(floats(tensor.bytes()), number);
      co_await receiver_->release(std::move(tensor));
    }
  }

  OwnRank& rank_;
  Way way_ = Way::Put;
  TensorContent content_{1};
  Consumer consumer_;
  TensorShape shape_;
  std::optional<comm::TensorArena> arena_;
  std::vector<TensorBlock> blocks_;
  std::unique_ptr<StaticSender> static_sender_;
  std::unique_ptr<StaticReceiver> static_receiver_;
  std::unique_ptr<DynamicSender> sender_;
  std::unique_ptr<DynamicReceiver> receiver_;
  std::vector<float> outside_;
  std::uint64_t first_ = 0, count_ = 0;
  double seconds_ = 0;
  std::string detail_;
};

void serve_requests(CommandChannel& channel, OwnRank& rank) {
  ChannelSide side(rank);
  serve(channel, [&](const Request& request) { return measure(side, request); });
}

}  // namespace
}  // namespace taxon::bench

int main(int argc, char** argv) {
  return taxon::bench::run_own_side(argc, argv, taxon::bench::serve_requests);
}
