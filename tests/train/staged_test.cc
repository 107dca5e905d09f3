// Models without a framework in stages: the perceptron against itself undivided, profiles by their figures.
#include "model/staged.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/cost.h"
#include "model/perceptron.h"
#include "model/pipeline.h"
#include "model/profile_model.h"

namespace taxon::model {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const data::SampleShape kShape{{7}, 4};

std::unique_ptr<Model> make_perceptron(int idle = 0) {
  return std::make_unique<Perceptron>(
      PerceptronOptions{.shape = kShape, .hidden = 5, .seed = 3, .idle = idle});
}

TEST(StagedPerceptron, IsTheUndividedOne) {
  const Samples samples = make_samples(kShape, 9);
  const StepInput input{.inputs = samples.inputs, .labels = samples.labels, .global_size = 12};
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    for (int stages : {1, 2})
      for (int micros : {1, 2, 5, 11}) {
        SCOPED_TRACE(testing::Message()
                     << schedule << " " << stages << " stages, " << micros << " micro-batches");
        expect_undivided([] { return make_perceptron(3); }, DType::Float64, schedule, {stages, micros}, input,
                         1e-13);
        expect_undivided([] { return make_perceptron(); }, DType::Float32, schedule, {stages, micros}, input,
                         1e-6);
      }
}

TEST(StagedPerceptron, SharesItsFeaturesAmongMembers) {
  const Samples samples = make_samples(kShape, 9);
  const StepInput input{.inputs = samples.inputs, .labels = samples.labels, .global_size = 12};
  const MakeModel make = [] {
    return std::make_unique<Perceptron>(
        PerceptronOptions{.shape = kShape, .hidden = 8, .seed = 3, .idle = 3});
  };
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    for (int stages : {1, 2})
      for (int members : {2, 4}) {
        SCOPED_TRACE(testing::Message() << schedule << " " << stages << " stages, " << members << " members");
        expect_undivided(make, DType::Float64, schedule, {stages, 3, members}, input, 1e-13);
        expect_undivided(make, DType::Float32, schedule, {stages, 2, members}, input, 1e-6);
      }
}

TEST(StagedPerceptron, ComputesActivationsAgainToTheSameBits) {
  const Samples samples = make_samples(kShape, 9);
  const StepInput input{.inputs = samples.inputs, .labels = samples.labels, .global_size = 12};
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    for (int stages : {1, 2}) {
      SCOPED_TRACE(testing::Message() << schedule << " " << stages << " stages");
      expect_same_bits_of_recomputed([] { return make_perceptron(3); }, DType::Float64, schedule, {stages, 5},
                                     input);
      const MakeModel shared = [] {
        return std::make_unique<Perceptron>(PerceptronOptions{.shape = kShape, .hidden = 8, .seed = 3});
      };
      expect_same_bits_of_recomputed(shared, DType::Float64, schedule, {stages, 3, 2}, input);
    }
}

TEST(StagedPerceptron, SaysWhatItCantShare) {
  const auto message = [](const Division& division) {
    try {
      make_perceptron()->staged()->divide(division);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::vector<Range> one_stage = {{0, 2}};
  EXPECT_THAT(message({.stages = one_stage, .held = {0}, .members = 2}),
              HasSubstr("hidden has 5 outputs, which 2 members can't share equally"));
  EXPECT_THAT(message({.stages = one_stage, .held = {0}, .members = 5, .splits = {{"out", "none"}}}),
              HasSubstr("mesh.splits: the layers of model perceptron are split in one way"));
}

plan::ModelProfile three_segments() {
  plan::ModelProfile profile;
  profile.model = "three";
  profile.batch = 8;
  profile.input = {1};
  profile.buffers = {3};
  profile.segments = {{"low", 4e-3, 6e-3, 0, 0, {{"low.weight", {1000}}}, 20},
                      {"middle", 2e-3, 8e-3, 0, 0, {{"middle.weight", {600}}, {"middle.bias", {10}}}, 30},
                      {"high", 2e-3, 2e-3, 0, 0, {{"high.weight", {50}}}}};
  return profile;
}

std::unique_ptr<Model> of_profile(const plan::ModelProfile& profile) {
  ModelSpec spec = spec_of(profile);
  auto order = gradient_order_of(profile, spec);
  return std::make_unique<ProfileModel>(std::move(spec), std::move(order));
}

TEST(StagedProfile, HoldsItsStagesAndCostsWhatTheyCost) {
  auto model = of_profile(three_segments());
  model->staged()->divide({.stages = {{0, 1}, {1, 2}}, .held = {1}});
  const ModelSpec& spec = model->spec();
  EXPECT_EQ(spec.parameter_count(), 660);
  EXPECT_TRUE(spec.buffers.empty());
  EXPECT_EQ(model->gradient_order({}, {}), (std::vector<int>{2, 1, 0}));
  ASSERT_EQ(model->staged()->pieces().size(), 1U);
  EXPECT_EQ(model->staged()->pieces()[0].inputs, 20);
  EXPECT_EQ(model->staged()->pieces()[0].outputs, 0);

  Bound bound(std::move(model), DType::Float32, DType::Float32, {2, 1, 0});
  const Range both{0, 2};
  const StepCost all = backward_cost(spec, 4, both, Gradients::All, bound.binding());
  EXPECT_EQ(all.cost.measured, from_seconds(5e-3));
  EXPECT_THAT(all.bucket_shares,
              ElementsAre(DoubleNear(0.2, 1e-12), DoubleNear(1, 1e-12), DoubleNear(1, 1e-12)));
  const StepCost inputs = backward_cost(spec, 4, both, Gradients::OfInputs, bound.binding());
  EXPECT_EQ(inputs.cost.measured, from_seconds(2.5e-3));
  EXPECT_THAT(inputs.bucket_shares, ElementsAre(1, 1, 1));
  const StepCost weights = backward_cost(spec, 4, {1, 1}, Gradients::OfWeights, bound.binding());
  EXPECT_EQ(weights.cost.measured, from_seconds(0.5e-3));
  EXPECT_THAT(weights.bucket_shares, ElementsAre(1, 1, 1));
}

TEST(StagedProfile, OfActivationsComputedAgainGoesForwardBeforeItGoesBackward) {
  auto model = of_profile(three_segments());
  model->staged()->divide({.stages = {{0, 1}, {1, 2}}, .held = {1}});
  const ModelSpec& spec = model->spec();
  Bound bound(std::move(model), DType::Float32, DType::Float32, {2, 1, 0});
  const auto of = [&](Gradients which) {
    return backward_cost(spec, 4, {0, 2}, which, bound.binding(), plan::Activations::Recomputed);
  };
  EXPECT_EQ(of(Gradients::All).cost.measured, from_seconds(7e-3));
  EXPECT_THAT(of(Gradients::All).bucket_shares,
              ElementsAre(DoubleNear(3.0 / 7, 1e-12), DoubleNear(1, 1e-12), DoubleNear(1, 1e-12)));
  EXPECT_EQ(of(Gradients::OfInputs).cost.measured, from_seconds(4.5e-3));
  EXPECT_EQ(of(Gradients::OfWeights).cost.measured, from_seconds(2.5e-3));
}

TEST(StagedProfile, PassesCompleteEveryBucketAtTheLast) {
  Pipeline pipeline([] { return of_profile(three_segments()); }, DType::Float32, "1f1b", {3, 4});
  const std::vector<std::int64_t> labels(8);
  pipeline.step({.labels = labels, .global_size = 8});
  EXPECT_THAT(pipeline.gradient("middle.bias"), testing::Each(0));
}

TEST(StagedProfile, WithoutOutputsCantBeCut) {
  plan::ModelProfile profile = three_segments();
  profile.segments[0].outputs = 0;
  const auto model = of_profile(profile);
  try {
    model->staged()->divide({.stages = {{0, 1}, {1, 2}}, .held = {0}});
    FAIL() << "it was cut";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("make the profile again"));
  }
}

}  // namespace
}  // namespace taxon::model
