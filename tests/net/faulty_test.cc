#include "net/faulty/faulty.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "support/worlds.h"

namespace taxon::net {
namespace {

using task::Task;

Task<void> note_arrival(Transport& net, std::vector<int>& order, std::uint32_t unit) {
  RecvOp recv(net, Rank(0), Tag{.unit = unit}, {}, DType::UInt8);
  co_await recv;
  order.push_back(static_cast<int>(unit));
}

/// The order in which rank 1 receives twenty messages that rank 0 has in flight together, each under a tag of
/// its own.
std::vector<int> arrivals(std::uint64_t seed) {
  std::vector<int> order;
  auto body = [&](Transport& net) -> Task<void> {
    if (net.rank() == Rank(0)) {
      std::vector<std::unique_ptr<Op>> ops;
      for (std::uint32_t i = 0; i < 20; ++i)
        ops.push_back(std::make_unique<SendOp>(net, Rank(1), Tag{.unit = i}, ConstView(), DType::UInt8));
      auto all = test::finish(ops);
      co_await all;
    } else {
      task::Scope scope(net.pending());
      for (std::uint32_t i = 0; i < 20; ++i) scope.spawn(note_arrival(net, order, i));
      co_await scope.join();
    }
  };
  test::run_delayed(2, body, {.seed = seed, .longest_delay = std::chrono::milliseconds(2)});
  return order;
}

TEST(Faulty, ReordersMessagesOfDifferentTagsAndLosesNone) {
  std::vector<int> order = arrivals(1);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  std::vector<int> all(20);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(order, all);
}

TEST(Faulty, CutsMessagesWhichTheReceiverNotices) {
  auto body = [](Transport& net) -> Task<void> {
    std::vector<int> values(100, 7);
    if (net.rank() == Rank(0)) {
      SendOp send(net, Rank(1), Tag{}, as_view(std::span(values)), DType::Int32);
      co_await send;
    } else {
      RecvOp recv(net, Rank(0), Tag{}, as_view(std::span(values)), DType::Int32);
      co_await recv;
    }
  };
  try {
    test::run_delayed(2, body, {.cut = 1});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 0 sent 50 x int32"));
  }
}

TEST(Faulty, CorruptsOneByte) {
  auto body = [](Transport& net) -> Task<void> {
    std::vector<std::uint8_t> values(100, 7);
    if (net.rank() == Rank(0)) {
      SendOp send(net, Rank(1), Tag{}, as_view(std::span(values)), DType::UInt8);
      co_await send;
    } else {
      RecvOp recv(net, Rank(0), Tag{}, as_view(std::span(values)), DType::UInt8);
      co_await recv;
      EXPECT_EQ(std::count(values.begin(), values.end(), 7), 99);
    }
  };
  test::run_delayed(2, body, {.corrupt = 1});
}

TEST(Faulty, ALostPeerFailsWhatIsAndWhatComes) {
  task::PollLoop loop;
  LoopbackWorld world(loop, 2);
  FaultyTransport net(world.transport(Rank(0)), {.longest_delay = std::chrono::hours(1)});
  std::string message;
  auto waiting = [](Transport& net, std::string& message) -> Task<void> {
    RecvOp recv(net, Rank(1), Tag{}, {}, DType::UInt8);
    SendOp held_back(net, Rank(1), Tag{}, {}, DType::UInt8);
    try {
      co_await recv;
    } catch (const Error& error) {
      message = error.what();
      EXPECT_EQ(error.context().rank, Rank(1));
    }
    EXPECT_TRUE(held_back.done());
  };
  auto main = [](FaultyTransport& net, Task<void> wait) -> Task<void> {
    task::PendingOps waits;
    task::Scope scope(waits);
    scope.spawn(std::move(wait));
    net.lose(Rank(1));
    co_await scope.join();
  };
  loop.run(main(net, waiting(net, message)));
  EXPECT_EQ(message, "rank 1 was lost");
}

}  // namespace
}  // namespace taxon::net
