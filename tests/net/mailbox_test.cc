#include "net/mailbox.h"

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <tuple>

#include "base/rng.h"
#include "net/kept_message.h"
#include "net/loopback/loopback.h"
#include "task/poll_loop.h"

namespace taxon::net {
namespace {

TEST(Mailbox, BehavesLikeAMapOfQueues) {
  using Key = std::tuple<int, std::uint32_t>;
  Mailbox<KeptMessage> mailbox;
  std::map<Key, std::deque<KeptMessage*>> model;
  std::deque<KeptMessage> all;
  Rng rng(3, "mailbox");
  for (int i = 0; i < 20'000; ++i) {
    // Phases of growing and shrinking, over few keys with long queues and many with short ones.
    std::uint32_t keys = (i / 5000) % 2 == 0 ? 5 : 500;
    bool grow = rng.below(10) < ((i / 1000) % 2 == 0 ? 7 : 3);
    Rank source(static_cast<int>(rng.below(3)));
    Tag tag{.unit = static_cast<std::uint32_t>(rng.below(keys))};
    auto& queue = model[{source.value(), tag.unit}];
    if (grow) {
      KeptMessage& message = all.emplace_back();
      message.source = source;
      message.tag = tag;
      mailbox.keep(message);
      queue.push_back(&message);
    } else {
      KeptMessage* expected = queue.empty() ? nullptr : queue.front();
      ASSERT_EQ(mailbox.take_message(source, tag), expected);
      if (expected) queue.pop_front();
    }
  }
  std::size_t left = 0, open = 0;
  for (auto& [key, queue] : model) {
    left += queue.size();
    open += queue.empty() ? 0 : 1;
  }
  EXPECT_EQ(mailbox.size(), open);
  while (mailbox.take_any()) --left;
  EXPECT_EQ(left, 0u);
  EXPECT_EQ(mailbox.size(), 0u);
}

TEST(Mailbox, ForgetsReceivesAnywhereInTheirQueue) {
  task::PollLoop loop;
  LoopbackWorld world(loop, 2);
  // Operations of a cancelled rank are over at once and may be queued anywhere.
  world.pending(Rank(0)).cancel(std::make_exception_ptr(Error(ErrorKind::Interrupted, "over")));
  Mailbox<KeptMessage> mailbox;
  std::vector<std::unique_ptr<RecvOp>> ops;
  for (int i = 0; i < 5; ++i) {
    ops.push_back(std::make_unique<RecvOp>(world.transport(Rank(0)), Rank(1), Tag{}, View(), DType::UInt8));
    mailbox.post(*ops.back());
  }
  EXPECT_TRUE(mailbox.receives_from(Rank(1)));
  EXPECT_FALSE(mailbox.receives_from(Rank(0)));
  for (std::size_t i : {2, 0, 4}) EXPECT_TRUE(mailbox.forget(*ops[i]));
  EXPECT_FALSE(mailbox.forget(*ops[2]));
  EXPECT_EQ(mailbox.take_receive(Rank(1), Tag{}), ops[1].get());
  mailbox.post(*ops[4]);
  EXPECT_EQ(mailbox.take_receive(Rank(1), Tag{}), ops[3].get());
  EXPECT_EQ(mailbox.take_receive(Rank(1), Tag{}), ops[4].get());
  EXPECT_EQ(mailbox.take_receive(Rank(1), Tag{}), nullptr);
  EXPECT_EQ(mailbox.size(), 0u);
}

}  // namespace
}  // namespace taxon::net
