#include "comm/all_to_all.h"

#include <gmock/gmock.h>

#include "comm/cases.h"

namespace taxon::test {
namespace {

/// Elements that member `from` has for member `to`: none for some.
std::size_t count_of(int from, int to) {
  return static_cast<std::size_t>((3 * from + 2 * to) % 4) * 1000 + static_cast<std::size_t>(from + to) % 2;
}
float value_of(int from, int to, std::size_t i) {
  return static_cast<float>(from * 100 + to * 10) + static_cast<float>(i % 7);
}

task::Task<void> exchange(net::Transport& transport) {
  const int members = transport.world_size(), own = transport.rank().value();
  std::size_t out = 0, in = 0;
  for (int m = 0; m < members; ++m) {
    out += count_of(own, m);
    in += count_of(m, own);
  }
  Member member(transport, 1);
  auto met = member.meet();
  co_await met;
  for (int use = 0; use < 3; ++use) {
    std::vector<float> sends(out), takes(in, -1);
    comm::AllToAll call{.unit = 5};
    std::size_t sent = 0, taken = 0;
    for (int m = 0; m < members; ++m) {
      const std::span<float> to = std::span(sends).subspan(sent, count_of(own, m));
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = value_of(own, m, i + static_cast<std::size_t>(use));
      call.outgoing.push_back(as_view(to));
      call.incoming.push_back(as_view(std::span(takes).subspan(taken, count_of(m, own))));
      sent += to.size();
      taken += count_of(m, own);
    }
    auto exchanging = comm::all_to_all(member.group, std::move(call));
    co_await exchanging;
    std::size_t at = 0;
    for (int m = 0; m < members; ++m)
      for (std::size_t i = 0; i < count_of(m, own); ++i, ++at)
        EXPECT_EQ(takes[at], value_of(m, own, i + static_cast<std::size_t>(use))) << m << " to " << own;
  }
  auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await end;
}

class AllToAllTest : public testing::TestWithParam<World> {};
TEST_P(AllToAllTest, GivesEveryMemberWhatTheOthersHaveForIt) {
  for (int members : {1, 2, 3, 5})
    GetParam().run(members, [](net::Transport& transport) { return exchange(transport); });
}
INSTANTIATE_TEST_SUITE_P(Worlds, AllToAllTest, testing::ValuesIn(all_worlds()), world_name);

task::Task<void> disagree(net::Transport& transport) {
  const bool odd = transport.rank() == Rank(1);
  Member member(transport, 1);
  auto met = member.meet();
  co_await met;
  std::vector<float> sends(20), takes(20);
  comm::AllToAll call;
  for (std::size_t m = 0; m < 2; ++m) {
    call.outgoing.push_back(as_view(std::span(sends).subspan(m * 10, odd ? 9 : 10)));
    call.incoming.push_back(as_view(std::span(takes).subspan(m * 10, odd ? 9 : 10)));
  }
  auto exchanging = comm::all_to_all(member.group, std::move(call));
  co_await exchanging;
}

TEST(AllToAll, RefusesSizesThatDiffer) {
  try {
    all_worlds().front().run(2, [](net::Transport& transport) { return disagree(transport); });
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Mismatch) << error.what();
  }
}

}  // namespace
}  // namespace taxon::test
