#include "comm/rows/torus.h"

#include <gtest/gtest.h>

#include <set>

namespace taxon::test {
namespace {

TEST(Torus, IsAsSquareAsTheNumberOfMembersAllows) {
  const struct {
    int members, rows, columns;
  } grids[] = {{1, 1, 1}, {2, 1, 2}, {4, 2, 2}, {6, 2, 3}, {7, 1, 7}, {12, 3, 4}, {16, 4, 4}, {18, 3, 6}};
  for (const auto& expected : grids) {
    const comm::Grid grid(expected.members);
    EXPECT_EQ(grid.rows, expected.rows) << expected.members;
    EXPECT_EQ(grid.columns, expected.columns) << expected.members;
  }
}

TEST(Torus, RowsAndColumnsCrossInOneMember) {
  const comm::Grid grid(12);
  for (int member = 0; member < 12; ++member) {
    std::set<int> row, both;
    const comm::Circle along = grid.row_of(member), across = grid.column_of(member);
    for (int position = 0; position < along.size; ++position) row.insert(along.member(position));
    for (int position = 0; position < across.size; ++position)
      if (row.contains(across.member(position))) both.insert(across.member(position));
    EXPECT_EQ(both, std::set<int>{member});
    EXPECT_EQ(along.member(along.position(member)), member);
    EXPECT_EQ(across.member(across.position(member) - across.size), member);
  }
}

/// 2 (n - 1) / n of the data, as any all-reduce at least, in fewer steps than a ring has.
TEST(Torus, SendsWhatARingSendsInFewerSteps) {
  for (int members = 2; members <= 24; ++members) {
    const comm::Grid grid(members);
    const std::size_t count = static_cast<std::size_t>(2 * members * members);
    for (int member = 0; member < members; ++member) {
      double sent = 0;
      for (int colour = 0; colour < grid.colours(); ++colour) {
        int steps = 0;
        const std::size_t own = count / static_cast<std::size_t>(grid.colours());
        for (const comm::TorusPhase& phase : comm::torus_phases(grid, member, colour, own)) {
          steps += phase.steps.last - phase.steps.first;
          sent += (phase.steps.last - phase.steps.first) * static_cast<double>(phase.range.size) /
                  phase.circle.size;
        }
        EXPECT_EQ(steps, 2 * (grid.rows - 1) + 2 * (grid.columns - 1));
      }
      EXPECT_DOUBLE_EQ(sent, 2.0 * (members - 1) / members * static_cast<double>(count)) << members;
    }
  }
}

}  // namespace
}  // namespace taxon::test
