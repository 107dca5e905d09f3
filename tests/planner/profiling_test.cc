#include "planner/profiling.h"

#include <gmock/gmock.h>

#include <numeric>

#include "data/split.h"
#include "job/inputs.h"

namespace taxon::planner {
namespace {

plan::Plan perceptron_plan(int tensor) {
  plan::Plan plan;
  plan.data = {.dataset = "blobs"};
  plan.model.name = "perceptron";
  plan.batch = {.global = 64};
  plan.mesh.tensor = tensor;
  return plan;
}

plan::ModelProfile profile_of(const plan::Plan& plan, int workers) {
  data::FileStorage storage;
  const job::TrainingInputs training = job::open_training_inputs(plan, storage, 0, 1);
  return measure_profile(training, plan, {.workers = workers, .steps = 3, .warm_up = 1}).profile;
}

TEST(Profiling, OfAWholeModelHasWhenEachGradientIsComplete) {
  const plan::ModelProfile profile = profile_of(perceptron_plan(1), 2);
  EXPECT_EQ(profile.tensor, 1);
  EXPECT_EQ(profile.batch, 32);
  for (const plan::SegmentProfile& segment : profile.segments)
    for (const plan::ParameterProfile& parameter : segment.parameters)
      EXPECT_GT(parameter.gradient, 0) << parameter.name;
  EXPECT_THAT(plan::profile_problems(profile), testing::IsEmpty());
}

TEST(Profiling, WhereLayersAreSplitIsOfOneMembersParts) {
  const plan::ModelProfile whole = profile_of(perceptron_plan(1), 1);
  const plan::ModelProfile part = profile_of(perceptron_plan(2), 2);
  EXPECT_EQ(part.tensor, 2);
  EXPECT_EQ(part.batch, 64) << "both members pass all samples";
  const plan::ParameterProfile &of_whole = whole.segments.front().parameters.front(),
                               &of_part = part.segments.front().parameters.front();
  EXPECT_EQ(of_part.name, of_whole.name);
  EXPECT_EQ(of_part.shape.front(), of_whole.shape.front() / 2);
  EXPECT_GT(part.update, 0);
  double forward = 0, backward = 0;
  for (const plan::SegmentProfile& segment : part.segments) {
    forward += segment.forward;
    backward += segment.backward;
  }
  EXPECT_GT(forward, 0);
  EXPECT_GT(backward, 0);
  EXPECT_EQ(plan::parse_profile(plan::write_profile(part), "part.yaml"), part);
}

/// Members are those of a stage, of which one process has all.
TEST(Profiling, OfAPipelineHasAllStages) {
  plan::Plan plan = perceptron_plan(2);
  const std::size_t segments = profile_of(plan, 2).segments.size();
  plan.mesh.pipeline = 2;
  EXPECT_EQ(profile_of(plan, 4).segments.size(), segments);
}

}  // namespace
}  // namespace taxon::planner
