#include "planner/simulation.h"

#include <gtest/gtest.h>

namespace taxon::planner {
namespace {

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

}  // namespace
}  // namespace taxon::planner
