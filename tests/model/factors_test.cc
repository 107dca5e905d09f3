// Linear layers that leave sufficient factors in place of their gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/bench.h"
#include "support/distance.h"

namespace taxon::model {
namespace {

using test::relative_distance;

const data::SampleShape kDigits{{1, 12, 12}, 5};

std::unique_ptr<Model> make_digits_model(const std::string& name, DType compute) {
  const plan::ModelPlan plan{.name = name};
  return make_model({.plan = &plan, .shape = kDigits, .compute = compute, .seed = 11});
}

std::vector<std::string> linear_ones(const Model& model) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : model.spec().parameters)
    if (parameter.linear) names.push_back(parameter.name);
  return names;
}

struct Kind {
  std::string name;
  DType compute, reduction;
  double tolerance;
};

class LeavesFactors : public testing::TestWithParam<Kind> {};

TEST_P(LeavesFactors, WhoseProductIsTheGradient) {
  const auto& [name, compute, reduction, tolerance] = GetParam();
  const Samples samples = make_samples(kDigits, 6), few = make_samples(kDigits, 3, 9);
  for (int micro_batches : {1, 2, 4}) {
    Bound dense(make_digits_model(name, compute), compute, reduction),
        factors(make_digits_model(name, compute), compute, reduction);
    factors.leave_factors(7);  // one row more than there are samples
    // Twice, and fewer the second time: nothing of the first may stay.
    for (const Samples& share : {samples, few}) {
      const StepOutput expected = dense.step(share, micro_batches, 12);
      const StepOutput output = factors.step(share, micro_batches, 12);
      EXPECT_EQ(output.counts[0], expected.counts[0]);
      EXPECT_EQ(output.loss_sum, expected.loss_sum);
      EXPECT_EQ(factors.marks.size(), dense.marks.size());
      EXPECT_LT(relative_distance(dense.all_gradients(), factors.all_products()), tolerance) << micro_batches;
    }
    dense.step({}, micro_batches, 12);
    factors.step({}, micro_batches, 12);
    for (double gradient : factors.all_products()) ASSERT_EQ(gradient, 0);
  }
}

/// When a bucket is marked its factors are all there.
TEST_P(LeavesFactors, BeforeTheirMark) {
  const auto& [name, compute, reduction, tolerance] = GetParam();
  Bound bound(make_digits_model(name, compute), compute, reduction);
  bound.leave_factors(6);
  bound.step(make_samples(kDigits, 6, 3));
  Recorder recorder(&bound.factors);
  bound.step(make_samples(kDigits, 6), 2, 6, recorder);
  const ConstView end = bound.factors.bytes();
  for (const FactorSlot& slot : bound.binding().factor_slots)
    for (std::size_t i = 0; i < recorder.order.size(); ++i)
      if (recorder.order[i] == static_cast<int>(slot.slot))
        for (const Range& range : {slot.outputs, slot.inputs}) {
          const std::size_t width = size_of(reduction);
          EXPECT_EQ(std::memcmp(recorder.snapshots[i].data() + range.begin * width,
                                end.data() + range.begin * width, range.size * width),
                    0);
        }
}

INSTANTIATE_TEST_SUITE_P(Models, LeavesFactors,
                         testing::Values(Kind{"mlp", DType::Float32, DType::Float32, 1e-6},
                                         Kind{"mlp", DType::Float64, DType::Float64, 1e-13},
                                         Kind{"lenet5", DType::Float32, DType::Float32, 1e-6},
                                         Kind{"cnn", DType::Float32, DType::Float32, 1e-6},
                                         Kind{"cnn", DType::BFloat16, DType::Float32, 1e-2},
                                         Kind{"perceptron", DType::Float64, DType::Float64, 1e-13}),
                         [](const auto& info) {
                           return info.param.name + "_" + std::string(to_string(info.param.compute));
                         });

TEST(LinearWeights, AreThoseOfFullyConnectedLayers) {
  using testing::ElementsAre;
  EXPECT_THAT(linear_ones(*make_digits_model("mlp", DType::Float32)),
              ElementsAre("fc1.weight", "fc2.weight", "fc3.weight"));
  EXPECT_THAT(linear_ones(*make_digits_model("cnn", DType::Float32)),
              ElementsAre("fc1.weight", "fc2.weight"));
  EXPECT_THAT(linear_ones(*make_digits_model("resnet18", DType::Float32)), ElementsAre("fc.weight"));
  EXPECT_THAT(linear_ones(*make_digits_model("perceptron", DType::Float32)),
              ElementsAre("hidden.weight", "out.weight"));
}

}  // namespace
}  // namespace taxon::model
