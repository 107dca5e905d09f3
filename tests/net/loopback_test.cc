#include "net/loopback/loopback.h"

#include <gmock/gmock.h>

#include "support/ranks.h"

namespace taxon::net {
namespace {

using task::Task;
using test::run_ranks;

TEST(Loopback, SendsAreDoneWhenTheyStart) {
  run_ranks(2, [](Transport& net) -> Task<void> {
    if (net.rank() == Rank(1)) co_return;
    std::vector<float> payload(1000);
    SendOp nobody_receives(net, Rank(1), Tag{}, as_view(std::span(payload)), DType::Float32);
    EXPECT_TRUE(nobody_receives.done());
  });
}

TEST(Loopback, ReceiversResumeAfterTheSenderWentOn) {
  // A coroutine must not be resumed from inside the constructor of another one's operation.
  std::vector<int> order;
  run_ranks(2, [&](Transport& net) -> Task<void> {
    if (net.rank() == Rank(0)) {
      RecvOp recv(net, Rank(1), Tag{}, {}, DType::UInt8);
      co_await recv;
      order.push_back(0);
    } else {
      SendOp send(net, Rank(0), Tag{}, {}, DType::UInt8);
      order.push_back(1);
      co_await send;
    }
  });
  EXPECT_THAT(order, testing::ElementsAre(1, 0));
}

TEST(Loopback, CarriesPhantoms) {
  run_ranks(2, [](Transport& net) -> Task<void> {
    Rank peer(1 - net.rank().value());
    View phantom = View::phantom(std::size_t{1} << 40);
    RecvOp recv(net, peer, Tag{}, phantom, DType::Float32);
    SendOp send(net, peer, Tag{}, phantom, DType::Float32);
    co_await send;
    co_await recv;
    EXPECT_EQ(net.traffic().bytes_received, phantom.size());
  });
}

TEST(Loopback, AFailureEndsEveryRankAndIsThrown) {
  auto body = [](Transport& net) -> Task<void> {
    if (net.rank() == Rank(1)) throw Error(ErrorKind::Data, "rank 1 fails");
    RecvOp never(net, Rank(1), Tag{}, {}, DType::UInt8);
    co_await never;
  };
  try {
    run_ranks(3, body);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Data);
  }
}

TEST(LoopbackDeathTest, PutsIntoRegionsThatAreGoneAreCaught) {
  auto put_after_free = [] {
    run_ranks(1, [](Transport& net) -> Task<void> {
      Region region = net.allocate(64);
      RemoteRegion shared = region.share();
      region = {};
      int value = 1;
      PutOp put(net, as_const_view(std::span<const int>(&value, 1)), &shared, 0, {net.rank(), 0}, 1);
      co_await put;
    });
  };
  EXPECT_DEATH(put_after_free(), "a put into a region of rank 0 that is gone");
}

}  // namespace
}  // namespace taxon::net
