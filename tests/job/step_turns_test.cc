#include "job/step_turns.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
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
      losses.push_back(turns.compute(step).loss_sum);
    }
    turns.end(nullptr);
  });
  std::vector<std::int64_t> sizes;
  while (const model::StepInput* step = turns.await()) {
    EXPECT_EQ(turns.current(), step);
    sizes.push_back(step->global_size);
    turns.give_back({.loss_sum = static_cast<double>(step->global_size) / 2});
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
    EXPECT_THROW(turns.compute(step), std::runtime_error);
    EXPECT_THROW(turns.compute(step), std::runtime_error);
  });
  EXPECT_NE(turns.await(), nullptr);
  turns.leave(std::make_exception_ptr(std::runtime_error("gone")));
  run.join();
}

TEST(StepTurns, AnOwnerThatFailsHasItsStepUntilItGivesItBack) {
  StepTurns turns;
  std::atomic<bool> computes = true;
  std::thread run([&] {
    const model::StepInput step = step_of(1);
    EXPECT_THROW(turns.compute(step), std::runtime_error);
    EXPECT_FALSE(computes);
  });
  EXPECT_NE(turns.await(), nullptr);
  turns.fail(std::make_exception_ptr(std::runtime_error("no data")));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the run may not see it earlier
  computes = false;
  turns.give_back({});
  run.join();
}

TEST(StepTurns, ARunThatFailsThrowsAtItsOwner) {
  StepTurns turns;
  turns.end(std::make_exception_ptr(std::runtime_error("failed")));
  EXPECT_THROW(turns.await(), std::runtime_error);
}

TEST(StepTurns, AStepThatBeginsEarlyWaitsForEachSegmentThatItNeeds) {
  StepTurns turns;
  const std::vector<model::ReadableWeights> given = {{1}, {1, 64}, {1, 128}, {3}, StepTurns::kBackward};
  std::atomic<std::size_t> ready = 0;
  std::thread run([&] {
    const model::StepInput step = step_of(1);
    for (; ready + 1 < given.size(); ++ready)
      turns.advance(step, given[ready]);  // until the owner needs more
    turns.compute(step);
    turns.end(nullptr);
  });
  ASSERT_NE(turns.await(), nullptr);
  for (model::ReadableWeights weights :
       {model::ReadableWeights{1}, {1}, {1, 64}, {1, 128}, {1, 192}, {3}, {5}, StepTurns::kBackward}) {
    turns.need(weights);
    EXPECT_TRUE(given[ready] >= weights) << weights.segment << ' ' << weights.rows;
  }
  turns.give_back({});
  EXPECT_EQ(turns.await(), nullptr);
  run.join();
}

TEST(StepTurns, ARunThatFailsAfterAStepBeganTakesWeightsAwayOnlyWhenNobodyReadsThem) {
  StepTurns turns;
  std::atomic<bool> reads = true;
  std::thread run([&] {
    const model::StepInput step = step_of(1);
    turns.advance(step, {1});
    turns.recall();
    EXPECT_FALSE(reads);
    turns.end(std::make_exception_ptr(std::runtime_error("failed")));
  });
  ASSERT_NE(turns.await(), nullptr);
  turns.need({1});
  reads = false;
  EXPECT_THROW(turns.need({1, 64}), std::runtime_error);
  EXPECT_THROW(turns.need(StepTurns::kBackward), std::runtime_error);
  turns.give_back({});
  EXPECT_THROW(turns.await(), std::runtime_error);
  run.join();
}

TEST(StepTurns, AStepOutlivesTheRunThatFailed) {
  StepTurns turns;
  std::thread run([&] {
    {
      const std::vector<std::int64_t> labels = {4, 7};
      const model::StepInput step{.labels = std::span<const std::int64_t>(labels), .global_size = 5};
      turns.advance(step, {1});
      turns.recall();
    }
    turns.end(std::make_exception_ptr(std::runtime_error("failed")));
  });
  ASSERT_NE(turns.await(), nullptr);
  EXPECT_THROW(turns.need({2}), std::runtime_error);
  run.join();
  EXPECT_THAT(data::whole(turns.current()->labels), testing::ElementsAre(4, 7));
  EXPECT_EQ(turns.current()->global_size, 5);
}

TEST(StepTurns, AStepThatNobodyTookIsRecalled) {
  StepTurns turns;
  std::thread run([&] {
    turns.recall();
    turns.end(std::make_exception_ptr(std::runtime_error("failed")));
  });
  EXPECT_THROW(turns.await(), std::runtime_error);
  run.join();
}

}  // namespace
}  // namespace taxon::job
