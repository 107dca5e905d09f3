#include "train/weight_versions.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "program/check.h"
#include "program/schedule.h"
#include "program/shapes.h"

namespace taxon::train {
namespace {

/// Carries the updates of a rank out on as many copies as its stage's versions, and looks at what passes get.
TEST(WeightVersions, ArePassedOnInAsManyCopiesAsTheProgramCounts) {
  for (const program::ScheduleRow& row : program::schedule_table()) {
    if (row.flushes) continue;
    for (const program::Shape& shape : program::shapes_of(row)) {
      const program::Program program = program::make_program(row, shape);
      const auto memory = program::stage_memory(program);
      for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
        SCOPED_TRACE(fmt::format("{} {} {} rank {}", row.name, shape.stages, shape.micros, rank));
        const auto& actions = program.ranks[rank];
        std::vector<int> contents(static_cast<std::size_t>(memory[rank].versions), -1);
        contents.front() = 0;
        WeightVersions versions(actions, contents.size());
        int before = 0;  // updates of the times before
        for (int time = 0; time < 3; ++time) {
          for (std::size_t i = 0; i < actions.size(); ++i) {
            if (program::computes(actions[i].kind)) {
              EXPECT_EQ(contents[versions.copy_of(actions[i].version)], before + actions[i].version);
            } else if (actions[i].kind == program::ActionKind::Update) {
              contents[versions.make(i)] = before + actions[i].version;
            }
          }
          before = *std::max_element(contents.begin(), contents.end());
          versions.begin_again();
          EXPECT_EQ(contents[versions.copy_of(0)], before);
        }
      }
    }
  }
}

}  // namespace
}  // namespace taxon::train
