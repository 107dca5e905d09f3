#include <gmock/gmock.h>

#include "comm/tensor_ends.h"
#include "comm/tensors/arena.h"
#include "support/errors.h"

namespace taxon::comm {
namespace {

using task::Task;
using test::fill_tensor;
using test::is_tensor;
using test::TensorPlace;
using testing::HasSubstr;

/// A sender whose arena holds two tensors and a receiver that takes its time: allocate() waits. When nothing
/// is out, it says what is in use.
Task<void> exhaust(net::Transport* net, std::vector<std::string>* order) {
  TensorPlace place(*net, {.bytes = 8192});
  const TensorShape shape = TensorShape::of(DType::UInt8, {4000});
  const TensorOptions options{.depth = 4};
  if (place.is(0)) {
    auto opening = DynamicSender::open(place.group, place.arena, {}, options);
    auto sender = co_await opening;
    for (int number = 0; number < 3; ++number) {
      auto allocating = place.arena.allocate(4000, "a gradient");
      TensorBlock block = co_await allocating;
      order->push_back("allocated");
      auto sent = sender->send(std::move(block), shape);
      co_await sent;
    }
    auto closed = sender->close();
    co_await closed;
    auto first_allocating = place.arena.allocate(4000, "weights of fc1");
    TensorBlock first = co_await first_allocating;
    std::exception_ptr full;
    try {
      auto too_much = place.arena.allocate(5000, "weights of fc2");
      co_await too_much;
    } catch (...) {
      full = std::current_exception();
    }
    EXPECT_EQ(test::kind_of(full), ErrorKind::Transport);
    EXPECT_THAT(test::message_of(full), HasSubstr("no room for"));
    EXPECT_THAT(test::message_of(full), HasSubstr("(weights of fc2)"));
    EXPECT_THAT(test::message_of(full), HasSubstr("at 0: "));
    EXPECT_THAT(test::message_of(full), HasSubstr("weights of fc1"));
    EXPECT_THAT(test::message_of(full), HasSubstr("free"));
    co_return;
  }
  auto opening = DynamicReceiver::open(place.group, place.arena, {}, options, TensorRead::InPlace);
  auto receiver = co_await opening;
  for (int number = 0; number < 3; ++number) {
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    auto wait = test::pause(*net, std::chrono::milliseconds(1));
    co_await wait;
    order->push_back("released");
    auto released = receiver->release(std::move(tensor));
    co_await released;
  }
  auto closed = receiver->close();
  co_await closed;
}

TEST(TensorArenas, WaitForReleasesAndThenSayWhoHoldsWhat) {
  std::vector<std::string> order;
  test::run_ranks(2, [&](net::Transport& net) { return exhaust(&net, &order); });
  EXPECT_THAT(
      order, testing::ElementsAre("allocated", "allocated", "released", "allocated", "released", "released"));
}

/// The peer of the channel that sent second releases first.
Task<void> release_the_second(net::Transport* net, bool* has_room) {
  constexpr std::size_t kBytes = 4096;
  TensorPlace place(*net, {.bytes = 2 * kBytes});
  const TensorShape shape = TensorShape::of(DType::UInt8, {kBytes});
  const TensorOptions options{.depth = 2};
  constexpr TensorRoute kRoutes[] = {{0, 1, 1}, {0, 1, 2}};
  if (place.is(0)) {
    std::vector<std::unique_ptr<DynamicSender>> senders;
    for (const TensorRoute route : kRoutes) {
      auto opening = DynamicSender::open(place.group, place.arena, route, options);
      std::unique_ptr<DynamicSender> sender = co_await opening;
      senders.push_back(std::move(sender));
    }
    for (auto& sender : senders) {
      auto allocating = place.arena.allocate(kBytes, "a gradient");
      TensorBlock block = co_await allocating;
      auto sent = sender->send(std::move(block), shape);
      co_await sent;
    }
    auto allocating = place.arena.allocate(kBytes, "another");
    co_await allocating;
    *has_room = true;
    for (auto& sender : senders) {
      auto closed = sender->close();
      co_await closed;
    }
    co_return;
  }
  std::vector<std::unique_ptr<DynamicReceiver>> receivers;
  std::vector<ReceivedTensor> tensors;
  for (const TensorRoute route : kRoutes) {
    auto opening = DynamicReceiver::open(place.group, place.arena, route, options, TensorRead::InPlace);
    std::unique_ptr<DynamicReceiver> receiver = co_await opening;
    receivers.push_back(std::move(receiver));
  }
  for (auto& receiver : receivers) {
    auto receiving = receiver->receive();
    ReceivedTensor tensor = co_await receiving;
    tensors.push_back(std::move(tensor));
  }
  for (const std::size_t channel : {1, 0}) {
    for (int looks = 0; looks < 1000 && channel == 0 && !*has_room; ++looks) {
      auto wait = test::pause(*net, std::chrono::milliseconds(1));
      co_await wait;
    }
    EXPECT_EQ(*has_room, channel == 0);
    auto released = receivers[channel]->release(std::move(tensors[channel]));
    co_await released;
  }
  for (auto& receiver : receivers) {
    auto closed = receiver->close();
    co_await closed;
  }
}

TEST(TensorArenas, HaveRoomAsSoonAsAnyPeerReleases) {
  bool has_room = false;
  test::run_ranks(2, [&](net::Transport& net) { return release_the_second(&net, &has_room); });
}

/// Blocks of random sizes come and go: none overlap, free pieces join again, the high water is what was
/// really needed.
TEST(TensorArenas, CutAndJoin) {
  test::run_ranks(1, [](net::Transport& net) -> Task<void> {
    TensorArena arena(net, {.bytes = 1 << 16, .blocks = 20});
    Rng rng(3, "sizes");
    std::vector<std::pair<TensorBlock, std::uint64_t>> blocks;
    std::size_t most = 0;
    for (std::uint64_t number = 0; number < 20'000; ++number) {
      if (blocks.size() < 20 && rng.below(2) == 0) {
        auto block = arena.try_allocate(rng.below(8000), "random");
        if (!block) continue;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->bytes().data()) % 64, 0u);
        fill_tensor(block->bytes(), number);
        blocks.emplace_back(std::move(*block), number);
        most = std::max(most, arena.used());
      } else if (!blocks.empty()) {
        const std::size_t at = rng.below(blocks.size());
        EXPECT_TRUE(is_tensor(blocks[at].first.bytes(), blocks[at].second));
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
    blocks.clear();
    EXPECT_EQ(arena.used(), 0u);
    EXPECT_EQ(arena.high_water(), most);
    EXPECT_TRUE(arena.try_allocate(1 << 16, "all of it")) << arena.map();
    co_return;
  });
}

TEST(TensorShapes, ThatAreNoneAreRefused) {
  EXPECT_EQ(TensorShape::of(DType::Float64, {}).bytes(), 8u);
  EXPECT_EQ(TensorShape::of(DType::BFloat16, {3, 5}).bytes(), 30u);
  EXPECT_EQ(TensorShape::of(DType::BFloat16, {3, 5}).describe(), "bfloat16[3, 5]");
  EXPECT_THROW(TensorShape::of(DType::UInt8, {-1}), Error);
  EXPECT_THROW(TensorShape::of(DType::UInt8, {std::int64_t{1} << 32, std::int64_t{1} << 31}), Error);
  EXPECT_THROW(TensorShape::of(DType::UInt8, std::vector<std::int64_t>(9, 1)), Error);
}

}  // namespace
}  // namespace taxon::comm
