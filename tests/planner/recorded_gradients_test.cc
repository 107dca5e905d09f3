#include "planner/recorded_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/blobs.h"
#include "model/perceptron.h"

namespace taxon::planner {
namespace {

TEST(RecordedGradients, APassHasNoMoreSamplesThanTheTrainingSet) {
  const data::Blobs train({.size = 3, .seed = 1});
  model::Perceptron model({.shape = train.shape()});
  const plan::Plan plan;
  EXPECT_GT(record_gradient(model, train, plan, 3, 1).values.size(), 0u);
  try {
    record_gradient(model, train, plan, 4, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("more samples than the training set"));
  }
}

}  // namespace
}  // namespace taxon::planner
