// Cancellation with operations of every kind in flight, in every transport.
#include <gmock/gmock.h>

#include "support/worlds.h"

namespace taxon::net {
namespace {

using task::Task;
using test::greet;
using test::World;

class Cancellation : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Cancellation, testing::ValuesIn(test::all_worlds()), test::world_name);

Task<void> expect_cancelled(Op& op, int& cancelled) {
  try {
    co_await op;
  } catch (const Error& error) {
    // The other rank may have unwound first and closed its connections.
    if (error.kind() == ErrorKind::Interrupted || error.kind() == ErrorKind::PeerLost) ++cancelled;
  }
}

Task<void> cancel_soon(Transport& net) {
  task::SleepUntil pause(net.executor(), net.pending(), net.executor().now() + std::chrono::milliseconds(20));
  bool due = false;
  try {
    co_await pause;
    due = true;
  } catch (...) {
  }
  if (due) net.pending().cancel(std::make_exception_ptr(Error(ErrorKind::Interrupted, "enough")));
}

/// Posts operations that can't finish and, beside them, a send larger than any buffer on the way, to a rank
/// that does not look.
TEST_P(Cancellation, UnwindsWhateverIsInFlight) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    Rank peer(1 - net.rank().value());
    std::vector<std::byte> large(32 << 20), in(100), pattern(100, std::byte{3});
    auto hello = greet(net);
    co_await hello;
    {
      RecvOp recv(net, peer, Tag{.unit = 1}, View(in.data(), in.size()), DType::UInt8);
      AwaitSignalOp raised(net, peer, Tag{}, 3, 1);
      SendOp send(net, peer, Tag{.unit = 2}, ConstView(large.data(), large.size()), DType::UInt8);
      SendOp behind(net, peer, Tag{.unit = 3}, ConstView(large.data(), 1), DType::UInt8);
      int cancelled = 0;
      task::PendingOps scope_waits;
      task::Scope scope(scope_waits);
      scope.spawn(expect_cancelled(recv, cancelled));
      scope.spawn(expect_cancelled(raised, cancelled));
      scope.spawn(cancel_soon(net));
      co_await scope.join();
      EXPECT_EQ(cancelled, 2);
      EXPECT_TRUE(send.done());
      EXPECT_TRUE(behind.done());
      // Nothing starts any more, and nothing comes into the buffer.
      RecvOp later(net, peer, Tag{.unit = 4}, View(in.data(), in.size()), DType::UInt8);
      EXPECT_TRUE(later.done());
    }
    EXPECT_EQ(in, std::vector<std::byte>(100));
  });
}

TEST_P(Cancellation, LeavesForgottenBuffersAlone) {
  GetParam().run(2, [](Transport& net) -> Task<void> {
    // Rank 0 gives up a receive of which a part may have come; rank 1 goes on sending.
    auto hello = greet(net);
    co_await hello;
    Rank peer(1 - net.rank().value());
    std::vector<std::byte> buffer(8 << 20,
                                  std::byte{net.rank() == Rank(0) ? std::uint8_t{0} : std::uint8_t{1}});
    if (net.rank() == Rank(1)) {
      SendOp send(net, peer, Tag{}, ConstView(buffer.data(), buffer.size()), DType::UInt8);
      // Rank 0 stops looking, so this may have to be recalled too.
      int cancelled = 0;
      task::PendingOps scope_waits;
      task::Scope scope(scope_waits);
      scope.spawn(expect_cancelled(send, cancelled));
      scope.spawn(cancel_soon(net));
      co_await scope.join();
      co_return;
    }
    {
      RecvOp recv(net, peer, Tag{}, View(buffer.data(), buffer.size()), DType::UInt8);
      Tag never{.unit = 1};
      RecvOp other(net, peer, never, View(buffer.data(), 1), DType::UInt8);
      task::Yield yield(net.executor());
      co_await yield;
      net.pending().cancel(std::make_exception_ptr(Error(ErrorKind::Interrupted, "enough")));
      EXPECT_TRUE(recv.done());
    }
    std::fill(buffer.begin(), buffer.end(), std::byte{0x55});
    for (int i = 0; i < 100; ++i) {
      task::Yield yield(net.executor());
      co_await yield;
    }
    EXPECT_EQ(std::count(buffer.begin(), buffer.end(), std::byte{0x55}),
              static_cast<std::ptrdiff_t>(buffer.size()));
  });
}

}  // namespace
}  // namespace taxon::net
