#include "planner/simulation.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "job/inputs.h"
#include "planner/profiling.h"

namespace taxon::planner {
namespace {

constexpr double kForward = 1e-2, kBackward = 3e-2;  // of each segment, in seconds

TEST(Simulation, AModelsShapeNeedsNoMoreThanOneSample) {
  SimulationInput input;
  input.plan.data = {.dataset = "blobs", .train_limit = 1};
  input.plan.model.name = "perceptron";
  input.plan.batch = {.global = 1};
  for (const FidelityRow& row : fidelity_table()) {
    SCOPED_TRACE(row.name);
    SimulatedInputs inputs = row.make_inputs(input);
    EXPECT_EQ(inputs.make_model(0)->spec().name, "perceptron");
  }
}

/// On as many hosts as members, to which nothing but the model's passes takes time.
SimulationInput with_real_models(int tensor) {
  SimulationInput input;
  input.plan.data = {.dataset = "blobs"};
  input.plan.model.name = "perceptron";
  input.plan.batch = {.global = 8};
  input.plan.length.steps = 4;
  input.plan.mesh.tensor = tensor;
  input.ranks = tensor;
  plan::HostModel host;
  host.count = tensor;
  host.device = {.flops = 1e15, .memory_bandwidth = 1e18};
  host.network = {.latency = 1e-9, .bandwidth = 1e15};
  input.cluster.hosts = {host};
  for (const FidelityRow& row : fidelity_table())
    if (row.has_models) input.fidelity = &row;
  return input;
}

/// Of the same model, in as many parts, with those times.
plan::ModelProfile profile_of(const SimulationInput& input) {
  data::FileStorage storage;
  const job::TrainingInputs training = job::open_training_inputs(input.plan, storage, 0, 1);
  plan::ModelProfile profile =
      measure_profile(training, input.plan, {.workers = input.ranks, .steps = 1, .warm_up = 0}).profile;
  for (plan::SegmentProfile& segment : profile.segments) {
    segment.forward = kForward;
    segment.backward = kBackward;
    for (plan::ParameterProfile& parameter : segment.parameters)
      parameter.gradient_from = parameter.gradient = 0;
  }
  return profile;
}

TEST(Simulation, RealModelsTakeTheTimesOfAProfileAndGiveTheSameBits) {
  for (int tensor : {1, 2}) {
    SCOPED_TRACE(tensor);
    SimulationInput input = with_real_models(tensor);
    const SimulationResult counted = simulate(input);
    input.profile = profile_of(input);
    const SimulationResult measured = simulate(input);
    const double passes = static_cast<double>(input.profile->segments.size()) * (kForward + kBackward);
    EXPECT_NEAR(to_seconds(measured.median), passes, 0.01 * passes);
    EXPECT_LT(to_seconds(counted.median), 0.01 * passes);
    EXPECT_EQ(measured.outcome.parameter_hash, counted.outcome.parameter_hash);
  }
}

TEST(Simulation, AProfileOfOtherPartsIsToldByWhatDiffers) {
  SimulationInput input = with_real_models(2);
  input.profile = profile_of(input);
  input.profile->segments.front().parameters.front().shape.front() += 1;
  input.profile->segments.front().name = "another";
  try {
    simulate(input);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("other parts"), testing::HasSubstr("1 more"),
                                             testing::HasSubstr("--workers")));
  }
}

}  // namespace
}  // namespace taxon::planner
