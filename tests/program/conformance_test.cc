// What must hold of every row of the table of schedules, over many shapes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "program/check.h"
#include "program/schedule.h"
#include "program/shapes.h"
#include "program/timeline.h"

namespace taxon::program {
namespace {

using ::testing::IsEmpty;

class EveryRow : public ::testing::TestWithParam<std::string_view> {
 protected:
  const ScheduleRow& row() const { return find_schedule(GetParam()); }
  /// Calls `check(shape, program)` for every shape that the row takes.
  template <class Check>
  void over_shapes(Check check) const {
    const std::vector<Shape> shapes = shapes_of(row());
    ASSERT_FALSE(shapes.empty());
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(fmt::format("{} stages, {} micro-batches", shape.stages, shape.micros));
      check(shape, make_program(row(), shape));
    }
  }
};

TEST_P(EveryRow, IsSound) {
  over_shapes(
      [](const Shape&, const Program& program) { EXPECT_THAT(program_problems(program), IsEmpty()); });
}

TEST_P(EveryRow, EndsWithRoomForTwoMessages) {
  over_shapes([](const Shape&, const Program& program) {
    const auto room = least_room(program);
    ASSERT_TRUE(room);
    EXPECT_LE(*room, 2);
    EXPECT_THAT(deadlock(program, *room + 1), IsEmpty());  // more room never hurts
  });
}

TEST_P(EveryRow, FlushesIfItSaysSo) {
  over_shapes([this](const Shape& shape, const Program& program) {
    std::size_t updates = 0;
    bool old = false;
    for (const auto& actions : program.ranks)
      for (const Action& action : actions) {
        updates += action.kind == ActionKind::Update;
        old = old || (computes(action.kind) && action.version > 0);
      }
    if (row().flushes) {
      EXPECT_EQ(updates, static_cast<std::size_t>(shape.stages));
      EXPECT_FALSE(old);
    } else {
      EXPECT_GE(updates, static_cast<std::size_t>(shape.stages));
    }
  });
}

TEST_P(EveryRow, SplitsBackwardPassesIfItSaysSo) {
  over_shapes([this](const Shape&, const Program& program) {
    bool split = false;
    for (const auto& actions : program.ranks)
      for (const Action& action : actions) split = split || action.kind == ActionKind::BackwardInput;
    EXPECT_EQ(split, row().splits_backward);
  });
}

TEST_P(EveryRow, WorksAsLongAsItsPasses) {
  over_shapes([](const Shape& shape, const Program& program) {
    const std::vector<StageCost> costs(static_cast<std::size_t>(shape.stages));
    const Timeline timeline = evaluate(program, costs);
    for (const RankUse& rank : timeline.ranks)
      EXPECT_DOUBLE_EQ(rank.busy,
                       3.0 * shape.micros * shape.stages / static_cast<double>(program.ranks.size()));
    EXPECT_LE(timeline.seconds, 3.0 * shape.micros * shape.stages);  // no worse than one rank
  });
}

TEST_P(EveryRow, DescribesItself) {
  EXPECT_FALSE(row().sentence.empty());
  EXPECT_FALSE(row().source.empty());
  EXPECT_FALSE(row().bubble.empty());
  EXPECT_FALSE(row().activations.empty());
  EXPECT_FALSE(row().versions.empty());
  for (const plan::OptionKey& key : row().options()) EXPECT_FALSE(key.sentence.empty()) << key.key;
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const ScheduleRow& row : schedule_table()) all.push_back(row.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Schedules, EveryRow, ::testing::ValuesIn(names()),
                         [](const auto& info) { return std::string(info.param); });

TEST(ScheduleTable, NamesAreDifferent) {
  const auto all = names();
  EXPECT_EQ(std::set<std::string_view>(all.begin(), all.end()).size(), all.size());
}

}  // namespace
}  // namespace taxon::program
