#include "job/step_turns.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <thread>

namespace taxon::job {
namespace {

model::StepInput step_of(std::int64_t size) { return {.global_size = size}; }

TEST(StepTurns, HandEachStepToTheOwnerAndBack) {
  StepTurns turns;
  std::vector<double> losses;
  std::thread run([&] {
    for (std::int64_t size : {3, 5}) {
      const model::StepInput step = step_of(size);
      losses.push_back(turns.ask(step).loss_sum);
    }
    turns.end(nullptr);
  });
  std::vector<std::int64_t> sizes;
  while (const model::StepInput* step = turns.await()) {
    EXPECT_EQ(turns.current(), step);
    sizes.push_back(step->global_size);
    turns.give_back({static_cast<double>(step->global_size) / 2, 0});
    EXPECT_EQ(turns.current(), nullptr);
  }
  run.join();
  EXPECT_THAT(sizes, testing::ElementsAre(3, 5));
  EXPECT_THAT(losses, testing::ElementsAre(1.5, 2.5));
}

TEST(StepTurns, AnOwnerThatLeavesEndsTheStepThatIsAskedForAndAllLaterOnes) {
  StepTurns turns;
  std::thread run([&] {
    const model::StepInput step = step_of(1);
    EXPECT_THROW(turns.ask(step), std::runtime_error);
    EXPECT_THROW(turns.ask(step), std::runtime_error);
  });
  EXPECT_NE(turns.await(), nullptr);
  turns.leave(std::make_exception_ptr(std::runtime_error("gone")));
  run.join();
}

TEST(StepTurns, ARunThatFailsThrowsAtItsOwner) {
  StepTurns turns;
  turns.end(std::make_exception_ptr(std::runtime_error("failed")));
  EXPECT_THROW(turns.await(), std::runtime_error);
}

}  // namespace
}  // namespace taxon::job
