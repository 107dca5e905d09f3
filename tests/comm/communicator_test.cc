#include <gmock/gmock.h>

#include "comm/cases.h"
#include "support/runtimes.h"

namespace taxon::test {
namespace {

TEST(TagTest, DependsOnNameAndMembersAloneAndCountsUses) {
  auto body = [](comm::Runtime& runtime) -> task::Task<void> {
    comm::Communicator data(runtime, "data", {Rank(0), Rank(1)}), again(runtime, "data", {Rank(0), Rank(1)});
    comm::Communicator model(runtime, "model", {Rank(0), Rank(1)}),
        turned(runtime, "data", {Rank(1), Rank(0)});
    const auto kOperation = net::Operation::AllReduce;
    net::Tag tag = data.begin(kOperation, 3, 1);
    EXPECT_EQ(tag, again.begin(kOperation, 3, 1));
    EXPECT_NE(tag.group, model.begin(kOperation, 3, 1).group);
    EXPECT_NE(tag.group, turned.begin(kOperation, 3, 1).group);
    EXPECT_EQ(tag.sequence, 0U);
    EXPECT_EQ(data.begin(kOperation, 3, 1).sequence, 1U);
    EXPECT_EQ(data.begin(kOperation, 3, 2).sequence, 0U);
    EXPECT_EQ(data.begin(kOperation, 4, 1).sequence, 0U);
    EXPECT_EQ(data.begin(net::Operation::Barrier, 3, 1).sequence, 0U);
    EXPECT_EQ(turned.rank(), runtime.rank() == Rank(0) ? 1 : 0);
    co_return;
  };
  run_runtimes(2, body);
}

task::Task<void> look_at_peers(net::Transport& transport, bool share) {
  Member member(transport, 1000);
  EXPECT_FALSE(member.group.shares_memory());
  EXPECT_FALSE(member.group.peers(member.arena.bytes()).mapped());
  auto met = member.meet();
  co_await met;
  EXPECT_EQ(member.group.shares_memory(), share || member.group.size() == 1);
  View view = member.arena.bytes().slice(100, 50);
  auto peers = member.group.peers(view);
  EXPECT_EQ(peers.mapped(), share || member.group.size() == 1);
  if (peers.mapped()) {
    EXPECT_EQ(peers.members.size(), static_cast<std::size_t>(member.group.size()));
    // Everybody writes its number into everybody's memory.
    for (View other : peers.members) {
      EXPECT_EQ(other.size(), 50U);
      other.data()[member.group.rank()] = static_cast<std::byte>(member.group.rank() + 1);
    }
  }
  auto all_wrote = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await all_wrote;
  for (int i = 0; peers.mapped() && i < member.group.size(); ++i)
    EXPECT_EQ(view.data()[i], static_cast<std::byte>(i + 1));
  std::vector<std::byte> elsewhere(10);
  EXPECT_FALSE(member.group.peers(View(elsewhere.data(), 10)).mapped());
  auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await end;
}

class PeersTest : public testing::TestWithParam<World> {};
TEST_P(PeersTest, AreMappedWhereMemoryIsShared) {
  for (int members : {1, 2, 3})
    GetParam().run(members, [](net::Transport& transport) {
      return look_at_peers(transport, GetParam().shares_memory);
    });
}
INSTANTIATE_TEST_SUITE_P(Worlds, PeersTest, testing::ValuesIn(all_worlds()), world_name);

TEST(ShareTest, RefusesRegionsOfDifferentSizes) {
  auto body = [](comm::Runtime& runtime) -> task::Task<void> {
    comm::Communicator group(runtime, "data", Member::all_of(runtime.world_size()));
    net::Region region = runtime.transport.allocate(runtime.rank() == Rank(1) ? 128 : 64);
    auto established = group.establish();
    co_await established;
    auto shared = group.share(region);
    co_await shared;
  };
  try {
    run_runtimes(3, body);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Mismatch);
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 1"));
  }
}

TEST(ShareTest, AllowsEmptyRegionsAndAddressesThatAreUsedAgain) {
  auto body = [](comm::Runtime& runtime) -> task::Task<void> {
    comm::Communicator group(runtime, "data", Member::all_of(runtime.world_size()));
    auto established = group.establish();
    co_await established;
    net::Region none;
    auto nothing = group.share(none);
    co_await nothing;
    for (std::size_t size : {64, 128, 64, 4096}) {
      net::Region region = runtime.transport.allocate(size);
      auto shared = group.share(region);
      co_await shared;
      auto peers = group.peers(region.bytes());
      EXPECT_EQ(peers.members.size(), 2U);
      EXPECT_EQ(peers.members.at(1).size(), size);
      auto end = comm::find_row(net::Operation::Barrier, "direct").run(group, {});
      co_await end;
    }
    // By messages: a peer may still look at this member's flags when a direct barrier lets it go.
    auto gone = comm::find_row(net::Operation::Barrier, "dissemination").run(group, {});
    co_await gone;
  };
  run_runtimes(2, body);
}

/// As in each run of a job.
TEST(ChannelTest, SignalsAreUsedAgainByTheNextOfAGroup) {
  auto body = [](comm::Runtime& runtime) -> task::Task<void> {
    for (std::uint32_t again = 0; again < runtime.transport.signals(); ++again) {
      comm::Communicator group(runtime, "data", Member::all_of(runtime.world_size()));
      auto established = group.establish();
      co_await established;
      for (int meeting = 0; meeting < 3; ++meeting) {
        auto met = comm::find_row(net::Operation::Barrier, "direct").run(group, {});
        co_await met;
      }
      auto gone = comm::find_row(net::Operation::Barrier, "dissemination").run(group, {});
      co_await gone;
    }
  };
  run_runtimes(2, body);
}

TEST(TrafficTest, OfARingAndOfADirectAllReduce) {
  for (const char* name : {"ring", "direct"}) {
    auto body = [&](net::Transport& transport) -> task::Task<void> {
      Member member(transport, 4096);
      auto met = member.meet();
      co_await met;
      Case c{&comm::find_row(net::Operation::AllReduce, name), DType::Float32, 1024, Values::Integers};
      auto first = use(member, c);  // opens the channel
      co_await first;
      std::uint64_t before = transport.traffic().bytes_sent;
      auto second = use(member, c);
      co_await second;
      // 4 members: a ring sends 2 * 3/4 of the data, a direct all-reduce stores a quarter three times.
      std::uint64_t expected = std::string(name) == "ring" ? 6144 : 3072;
      EXPECT_EQ(transport.traffic().bytes_sent - before, expected) << name;
      auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
      co_await end;
    };
    run_ranks(4, body);
  }
}

}  // namespace
}  // namespace taxon::test
