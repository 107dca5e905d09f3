#include <fmt/format.h>

#include "comm/cases.h"

namespace taxon::test {
namespace {

/// One member comes with something else than the others.
struct Disagreement {
  std::string name;
  std::size_t length = 0, other_length = 0;
  DType type = DType::Float32, other_type = DType::Float32;
};

/// All come with the same `warm_ups` times, then the last member with something else.
task::Task<void> disagree(net::Transport& transport, const comm::CollectiveRow* row, Disagreement d,
                          int warm_ups) {
  bool odd = transport.rank().value() == transport.world_size() - 1;
  std::size_t bytes = std::max(d.length * size_of(d.type), d.other_length * size_of(d.other_type));
  Member member(transport, std::max<std::size_t>(bytes, 1));
  auto met = member.meet();
  co_await met;
  Case same{row, d.type, d.length, Values::Integers},
      other{row, d.other_type, d.other_length, Values::Integers};
  for (int i = 0; i < warm_ups; ++i) {
    auto used = use(member, same);
    co_await used;
  }
  auto used = use(member, odd ? other : same);
  co_await used;
  // Not everybody notices: a member that only sends is done. The next meeting is where it hears of it.
  auto end = comm::find_row(net::Operation::Barrier, "dissemination").run(member.group, {});
  co_await end;
}

class MismatchTest : public testing::TestWithParam<const comm::CollectiveRow*> {
 protected:
  static void expect_mismatch(int members, const Disagreement& d, int warm_ups) {
    for (bool share : {true, false}) {
      if (!share && !GetParam()->applies({members, 64, false})) continue;
      SCOPED_TRACE(fmt::format("{}, {} members, {} uses before, {} memory", d.name, members, warm_ups,
                               share ? "shared" : "no shared"));
      const comm::CollectiveRow* row = GetParam();
      RankBody body = [&](net::Transport& transport) { return disagree(transport, row, d, warm_ups); };
      try {
        run_ranks(members, body, {.share_memory = share});
        ADD_FAILURE() << "nobody noticed";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Mismatch) << error.what();
        ASSERT_TRUE(error.context().rank.has_value()) << error.what();
        EXPECT_NE(std::string(error.what()).find("rank " + std::to_string(error.context().rank->value())),
                  std::string::npos)
            << error.what();
      }
    }
  }
};

TEST_P(MismatchTest, IsFoundAndNamesARank) {
  const std::vector<Disagreement> disagreements{
      {"one element more", 1000, 1001},
      {"nothing and one", 0, 1},
      {"one and two", 1, 2},
      {"fewer segments of the same size", 262144, 196608},
      {"one segment and many", 32768, 262144},
      {"many segments and one", 262144, 32768},
      {"another type of the same bytes", 64, 128, DType::Float32, DType::BFloat16},
  };
  for (const Disagreement& d : disagreements)
    for (int members : {2, 3, 5})
      for (int warm_ups : {0, 2}) expect_mismatch(members, d, warm_ups);
}

std::vector<const comm::CollectiveRow*> rows_with_data() {
  auto rows = all_rows();
  std::erase_if(rows, [](const auto* row) { return row->collective == net::Operation::Barrier; });
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Rows, MismatchTest, testing::ValuesIn(rows_with_data()),
                         [](const auto& info) { return row_name(*info.param); });

}  // namespace
}  // namespace taxon::test
