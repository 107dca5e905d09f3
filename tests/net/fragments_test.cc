// How the real transport cuts and copies: docs/transport.md, "Copies".
#include <gmock/gmock.h>

#include "support/worlds.h"

#if TAXON_TEST_UCX

namespace taxon::net {
namespace {

using task::Task;
using test::Process;
using test::run_processes;
using test::UcxRank;
using testing::Each;

constexpr std::size_t kMessage = 60 << 10;  // one fragment of a path over TCP
const ProcessTransportOptions kTcp{.transport = "ucx-tcp"};

/// Rank 0 sends `rounds` messages of one fragment, each after the answer to the one before.
Task<void> play(Transport& net, int rounds) {
  Rank peer(1 - net.rank().value());
  std::vector<std::byte> ball(kMessage), caught(kMessage);
  for (int round = 0; round < rounds; ++round) {
    std::fill(ball.begin(), ball.end(), static_cast<std::byte>(round + 1));
    RecvOp recv(net, peer, Tag{}, View(caught.data(), caught.size()), DType::UInt8);
    if (net.rank() == Rank(1)) co_await recv;
    SendOp send(net, peer, Tag{}, ConstView(ball.data(), ball.size()), DType::UInt8);
    co_await send;
    if (net.rank() == Rank(0)) co_await recv;
    EXPECT_TRUE(caught == ball) << round;
  }
}

/// What became of rank 0's fragments after the connection had been made.
FragmentCounts count(UcxRank& rank, int rounds) {
  Rank peer(1 - rank.process().index());
  rank.run([](Transport& net) -> Task<void> { return play(net, 2); });
  FragmentCounts before = rank.fragments_to(peer);
  rank.run([&](Transport& net) -> Task<void> { return play(net, rounds); });
  FragmentCounts after = rank.fragments_to(peer);
  return {after.direct - before.direct, after.copied - before.copied};
}

TEST(UcxFragments, AreSentStraightFromThePayloadWhileTheSocketHasRoom) {
  auto codes = run_processes(2, [](Process& process) {
    UcxRank rank(process, kTcp);
    FragmentCounts counts = count(rank, 20);
    EXPECT_EQ(counts.direct, 20u);
    EXPECT_EQ(counts.copied, 0u);
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxFragments, ThatDoNotFitTheUsersSegmentsAreCopied) {
  auto codes = run_processes(2, [](Process& process) {
    setenv("UCX_TCP_TX_SEG_SIZE", "8kb", 1);
    UcxRank rank(process, kTcp);
    FragmentCounts counts = count(rank, 5);
    EXPECT_EQ(counts.direct, 0u);
    EXPECT_EQ(counts.copied, 5u);
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

/// Far more both ways than may be on its way unconfirmed.
Task<void> flood(Transport& net) {
  Rank peer(1 - net.rank().value());
  constexpr int kMessages = 8;
  std::vector<std::byte> given(2 << 20), got(given.size());
  for (int message = 0; message < kMessages; ++message) {
    for (std::size_t i = 0; i < given.size(); ++i)
      given[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(message + peer.value()));
    RecvOp recv(net, peer, Tag{}, View(got.data(), got.size()), DType::UInt8);
    SendOp send(net, peer, Tag{}, ConstView(given.data(), given.size()), DType::UInt8);
    co_await send;
    co_await recv;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (got[i] != static_cast<std::byte>(i * 7 + static_cast<std::size_t>(message + net.rank().value()))) {
        ADD_FAILURE() << "byte " << i << " of message " << message;
        break;
      }
  }
}

TEST(UcxFragments, AreConfirmedWhereTheyTravelOverANetwork) {
  auto codes = run_processes(2, [](Process& process) {
    UcxRank rank(process, kTcp);
    rank.run([](Transport& net) -> Task<void> { return flood(net); });
    EXPECT_GE(rank.fragments_to(Rank(1 - process.index())).confirmed, 8u);
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(UcxFragments, NeedNoConfirmationWithinAHost) {
  auto codes = run_processes(2, [](Process& process) {
    UcxRank rank(process, {.transport = "shm"});
    rank.run([](Transport& net) -> Task<void> { return flood(net); });
    EXPECT_EQ(rank.fragments_to(Rank(1 - process.index())).confirmed, 0u);
    process.barrier();
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
}

}  // namespace
}  // namespace taxon::net

#endif
