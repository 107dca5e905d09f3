#include "exchange/channel/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "exchange/channel/buffer_pool.h"
#include "support/runtimes.h"

namespace taxon::exchange {
namespace {

constexpr ValueChannel::Direction kThere{0, 1, 7, "ask", "questions"};
constexpr ValueChannel::Direction kBack{2, 3, 2, "answer", "answers"};
constexpr std::size_t kSize = 8;

TEST(BufferPool, GivesAgainWhatCameBack) {
  BufferPool pool(DType::Float64, kSize, {});
  Buffer first = pool.take();
  const tensor::Arena* arena = first.get();
  const Buffer second = pool.take();
  EXPECT_NE(second.get(), arena) << "the first one is in use";
  first.reset();
  EXPECT_EQ(pool.take().get(), arena);
}

/// What both ends saw in some uses: member 0 asks, member 1 answers with twice the values.
struct Talk {
  bool placed = true, share = true;
  std::vector<bool> asked_there;  // by use: the question was written into member 1's memory
  std::vector<double> answers;
  std::string refused;
};

task::Task<void> ask(Talk* talk, ValueChannel* channel, const tensor::Arena* values, std::uint32_t signal) {
  for (int use = 0; use < 3; ++use, channel->next_use()) {
    for (double& value : values->values<double>({0, kSize})) value = 1 + use;
    auto sending =
        channel->send({use}, values->bytes(), values->type(), describe_window(*values, {0, kSize}, signal));
    co_await sending;
    auto receiving = channel->receive(values->bytes(), values->type());
    const ValueChannel::Head head = co_await receiving;
    EXPECT_EQ(head[0], 10 + use);
    channel->read_credit(values->bytes().size());
    auto taking = channel->receive_values(values->bytes(), values->type());
    co_await taking;
    talk->answers.push_back(values->values<double>({0, kSize})[kSize - 1]);
  }
  auto closing = channel->send_last({-1}, values->bytes(), values->type());
  co_await closing;
}

task::Task<void> answer(Talk* talk, ValueChannel* channel, const tensor::Arena* values,
                        std::uint32_t signal) {
  for (;; channel->next_use()) {
    auto receiving = channel->receive(values->bytes(), values->type());
    ValueChannel::Head head = co_await receiving;
    if (head[0] < 0) co_return;
    talk->asked_there.push_back(channel->read_credit(values->bytes().size()));
    auto taking = channel->receive_values(values->bytes(), values->type());
    co_await taking;
    for (double& value : values->values<double>({0, kSize})) value *= 2;
    head[0] += 10;
    auto sending =
        channel->send(head, values->bytes(), values->type(), describe_window(*values, {0, kSize}, signal));
    co_await sending;
  }
}

task::Task<void> play(Talk* talk, comm::Runtime* runtime) {
  comm::Communicator group(*runtime, "pair", {Rank(0), Rank(1)});
  auto establish = group.establish();
  co_await establish;
  const int other = 1 - group.rank();
  const std::uint32_t signal = runtime->transport.allot_signals(1);
  ChannelPeer peer{other, talk->share, signal};
  const tensor::Arena values(runtime->transport, DType::Float64, kSize);
  const bool asks = group.rank() == 0;
  ValueChannel channel(group, peer, 5, talk->placed, asks ? kThere : kBack, asks ? kBack : kThere);
  EXPECT_EQ(channel.placed(), talk->placed && talk->share);
  auto talking = asks ? ask(talk, &channel, &values, signal) : answer(talk, &channel, &values, signal);
  co_await talking;
}

void run(Talk* talk) {
  test::RuntimeBody body = [&](comm::Runtime& runtime) { return play(talk, &runtime); };
  test::run_runtimes(2, body, {.share_memory = talk->share});
}

TEST(ValueChannel, WritesIntoPlaceOnceItKnowsThePlace) {
  Talk talk;
  run(&talk);
  EXPECT_THAT(talk.answers, testing::ElementsAre(2, 4, 6));
  EXPECT_THAT(talk.asked_there, testing::ElementsAre(false, true, true));
}

TEST(ValueChannel, SendsMessagesWhereValuesAreCodedOrNoMemoryIsShared) {
  for (auto [placed, share] : {std::pair{false, true}, std::pair{true, false}}) {
    Talk talk{placed, share};
    run(&talk);
    EXPECT_THAT(talk.answers, testing::ElementsAre(2, 4, 6));
    EXPECT_THAT(talk.asked_there, testing::Each(false));
  }
}

task::Task<void> lie(Talk* talk, comm::Runtime* runtime) {
  comm::Communicator group(*runtime, "pair", {Rank(0), Rank(1)});
  auto establish = group.establish();
  co_await establish;
  ChannelPeer peer{1 - group.rank(), true, runtime->transport.allot_signals(1)};
  ValueChannel channel(group, peer, 5, true, kThere, kThere);
  if (group.rank() == 0) {
    const ValueChannel::PlacedHead head{{0, 0, 0, 0, 0, 0, 0, 1}, {}};
    auto saying = channel.say(kThere.head, as_const_view(std::span<const ValueChannel::PlacedHead>(&head, 1)),
                              DType::UInt8);
    co_await saying;
    co_return;
  }
  auto receiving = channel.receive({}, DType::Float64);
  co_await receiving;
  try {
    channel.read_credit(kSize);
  } catch (const Error& error) {
    talk->refused = error.what();
  }
}

TEST(ValueChannel, RefusesWhatWasWrittenWhereNothingWasWanted) {
  Talk talk;
  test::RuntimeBody body = [&](comm::Runtime& runtime) { return lie(&talk, &runtime); };
  test::run_runtimes(2, body, {.share_memory = true});
  EXPECT_THAT(talk.refused, testing::HasSubstr("1 questions written into place here, where 0 came before"));
}

}  // namespace
}  // namespace taxon::exchange
