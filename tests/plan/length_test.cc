#include <gtest/gtest.h>

#include <algorithm>

#include "plan/sample_plan.h"

namespace taxon::plan {
namespace {

// What the step loop does, one step at a time.
std::int64_t samples_after(std::int64_t steps, std::int64_t batch, std::int64_t size) {
  std::int64_t consumed = 0;
  for (; steps > 0; --steps) consumed += std::min(batch, size - consumed % size);
  return consumed;
}

TEST(Length, StepsStopAtTheEndOfEachEpoch) {
  for (std::int64_t size : {1, 2, 7, 10, 64})
    for (std::int64_t batch : {1, 2, 3, 7, 64, 100})
      for (std::int64_t steps = 1; steps < 40; ++steps) {
        Plan plan;
        plan.batch.global = batch;
        plan.length.steps = steps;
        ASSERT_EQ(total_samples(plan, 3, size), samples_after(steps, batch, size))
            << size << " " << batch << " " << steps;
      }
}

TEST(Length, StepsThatAreLeftHaveTheBatchOfThoseWhoGoOn) {
  Plan plan;
  plan.batch.per_worker = 5;
  for (std::int64_t size : {7, 30, 64})
    for (std::int64_t done = 0; done <= 20; ++done) {
      plan.length.steps = 20;
      const std::int64_t samples = samples_after(done, 10, size);  // two workers
      ASSERT_EQ(total_samples(plan, 2, size, {done, samples}), total_samples(plan, 2, size))
          << size << " " << done;
      std::int64_t expected = samples;
      for (std::int64_t step = done; step < 20; ++step)
        expected += std::min<std::int64_t>(20, size - expected % size);
      ASSERT_EQ(total_samples(plan, 4, size, {done, samples}), expected) << size << " " << done;
    }
}

TEST(Length, EpochsMayBeParts) {
  Plan plan = test::legal_plan();
  plan.length.epochs = 1.5;
  EXPECT_EQ(total_samples(plan, 2, 60000), 90000);
  plan.length.epochs = 0.1;
  EXPECT_EQ(total_samples(plan, 2, 25), 3);
  plan.length.epochs = 1e-6;
  EXPECT_EQ(total_samples(plan, 2, 25), 1);
}

TEST(Length, SamplesAreTakenAsTheyAre) {
  Plan plan;
  plan.length.samples = 12345;
  EXPECT_EQ(total_samples(plan, 2, 10), 12345);
}

TEST(Batch, GlobalFollowsFromEitherKey) {
  Plan plan;
  plan.batch.global = 100;
  EXPECT_EQ(global_batch(plan, 3), 100);
  plan.batch = {.per_worker = 64};
  EXPECT_EQ(global_batch(plan, 3), 192);
}

}  // namespace
}  // namespace taxon::plan
