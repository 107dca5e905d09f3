// What a pipeline's schedule promises, seen in training on virtual time.
#include <gtest/gtest.h>

#include "planner/simulation.h"

namespace taxon::planner {
namespace {

/// Segments that take equally long and hand little to each other, of next to no parameters.
plan::ModelProfile equal_segments(int count, std::int64_t batch) {
  plan::ModelProfile profile;
  profile.model = "equal";
  profile.batch = batch;
  profile.input = {1};
  for (int i = 0; i < count; ++i) {
    const std::string name = "s" + std::to_string(i);
    profile.segments.push_back({name, 1e-2, 2e-2, 0, 0, {{name + ".weight", {16}}}, i + 1 < count ? 4 : 0});
  }
  return profile;
}

plan::ClusterModel fast_hosts(int ranks) {
  plan::HostModel host;
  host.count = ranks;
  host.device = {.flops = 1e12, .memory_bandwidth = 1e12};
  host.network = {.latency = 1e-6, .bandwidth = 10e9};
  return {.hosts = {host}};
}

/// Time without passes, as a share of all ranks' time, once the run has settled.
double bubble_of(const SimulationResult& result) {
  double busy = 0, all = 0;
  for (const auto& steps : result.by_rank)
    for (std::size_t step = 2; step < steps.size(); ++step) {
      busy += to_seconds(steps[step].compute);
      all += to_seconds(steps[step].step_time);
    }
  return 1 - busy / all;
}

double simulated_bubble(const char* schedule, int stages, int micros) {
  SimulationInput input;
  input.ranks = stages;
  input.cluster = fast_hosts(stages);
  input.profile = equal_segments(stages, micros);
  input.plan.batch = {.global = micros, .micro_batches = micros};
  input.plan.length.steps = 6;
  input.plan.mesh.pipeline = stages;
  input.plan.pipeline.schedule = schedule;
  for (const FidelityRow& row : fidelity_table())
    if (!row.has_models && !input.fidelity) input.fidelity = &row;
  return bubble_of(simulate(input));
}

TEST(Pipeline, BubblesAreTheFormulas) {
  for (const auto& [stages, micros] : {std::pair(2, 4), {3, 6}, {4, 8}, {4, 16}, {8, 16}}) {
    SCOPED_TRACE(testing::Message() << stages << " stages, " << micros << " micro-batches");
    const double p = stages, m = micros;
    const double bubble = (p - 1) / (m + p - 1), third = (p - 1) / (3 * m + p - 1);
    EXPECT_NEAR(simulated_bubble("gpipe", stages, micros), bubble, 0.05 * bubble);
    EXPECT_NEAR(simulated_bubble("1f1b", stages, micros), bubble, 0.05 * bubble);
    EXPECT_NEAR(simulated_bubble("zb_h1", stages, micros), third, 0.05 * third);
  }
}

}  // namespace
}  // namespace taxon::planner
