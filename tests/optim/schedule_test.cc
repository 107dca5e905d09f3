#include "optim/schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace taxon::optim {
namespace {

plan::RatePlan plan_of(const char* schedule, plan::Options options = {}) {
  return {.base = 0.4, .schedule = schedule, .warmup_samples = 100, .options = std::move(options)};
}

TEST(LearningRate, WarmsUpAndStays) {
  const LearningRate rate(plan_of("constant"), 1000);
  EXPECT_DOUBLE_EQ(rate.at(0), 0);
  EXPECT_DOUBLE_EQ(rate.at(25), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(500), 0.4);
}

TEST(LearningRate, FallsInSteps) {
  const LearningRate rate(plan_of("step", {{"step_samples", "[300, 600]"}, {"step_factor", 0.5}}), 1000);
  EXPECT_DOUBLE_EQ(rate.at(299), 0.4);
  EXPECT_DOUBLE_EQ(rate.at(300), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(999), 0.1);
}

TEST(LearningRate, FallsAlongACosine) {
  const LearningRate rate(plan_of("cosine", {{"final_fraction", 0.1}}), 1000);
  EXPECT_DOUBLE_EQ(rate.at(100), 0.4);
  EXPECT_NEAR(rate.at(550), 0.4 * 0.55, 1e-12);
  EXPECT_NEAR(rate.at(1000), 0.04, 1e-12);
}

TEST(LearningRate, FollowsAScheduleOfTheProgramsOwnFirst) {
  const ScheduleRow own[] = {
      {.name = "cosine", .make = [](const plan::RatePlan&, double total) -> std::function<double(double)> {
         return [total](double samples) { return 1 - samples / total; };
       }}};
  EXPECT_DOUBLE_EQ(LearningRate(plan_of("cosine"), 1000, own).at(500), 0.2);
  EXPECT_EQ(known_schedules(own).front().name, "cosine");
  EXPECT_EQ(known_schedules(own).size(), schedule_table().size() + 1);
}

TEST(LearningRate, OfNoScheduleIsRefused) { EXPECT_THROW(LearningRate(plan_of("cosin"), 1000), Error); }

}  // namespace
}  // namespace taxon::optim
