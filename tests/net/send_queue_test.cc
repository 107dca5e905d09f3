// What is queued for one peer, without a network.
#include "net/wire/send_queue.h"

#include <gtest/gtest.h>

#include "net/loopback/loopback.h"
#include "task/poll_loop.h"

namespace taxon::net {
namespace {

TEST(SendQueue, IsCutByTheRecallOfWhatHasBegunAndHoldsTheNextOneWhole) {
  task::PollLoop loop;
  LoopbackWorld world(loop, 2);
  const std::vector<std::byte> bytes(1000);
  SendOp large(world.transport(Rank(0)), Rank(1), Tag{}, ConstView(bytes.data(), 1000), DType::UInt8);
  SendOp small(world.transport(Rank(0)), Rank(1), Tag{}, ConstView(bytes.data(), 10), DType::UInt8);
  Completions completions;
  SendQueue queue(completions);
  queue.start(large, [&] { queue.advance(500); });
  queue.start(small, [] {});
  EXPECT_TRUE(queue.forget(large));
  EXPECT_TRUE(queue.cut());
  EXPECT_EQ(queue.sent(), 0u);
  EXPECT_EQ(queue.next(600).size(), 10u);
  EXPECT_TRUE(queue.forget(small));
}

}  // namespace
}  // namespace taxon::net
