// Exported programs as models that train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/bench.h"
#include "model/torch/exported/forged.h"
#include "model/torch/exported/networks.h"

namespace taxon::model::exported {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const data::SampleShape kImages{{1, 6, 6}, 5};
const data::SampleShape kRows{{6}, 5};
const data::SampleShape kSequences{{4, 6}, 5};

std::unique_ptr<Model> load(const std::string& path, const data::SampleShape& shape,
                            DType compute = DType::Float32, std::vector<std::string> frozen = {},
                            int rank = 0) {
  plan::ModelPlan plan{.name = path, .frozen = std::move(frozen)};
  return make_model({.plan = &plan, .shape = shape, .compute = compute, .seed = 3, .rank = rank});
}

std::string complaint(const std::string& path, const data::SampleShape& shape) {
  try {
    load(path, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Data);
    EXPECT_THAT(error.what(), HasSubstr(path));
    return error.what();
  }
  return "";
}

TEST(ExportedModel, TrainsAsTorchScriptDoes) {
  const Samples samples = make_samples(kImages, 8);
  auto built = load(path_of("mlp.pt2"), kImages);
  EXPECT_EQ(built->spec().name, "mlp");
  EXPECT_EQ(built->spec().parameters[0].name, "1.weight");
  EXPECT_EQ(built->spec().parameter_count(), 36 * 16 + 16 + 16 * 5 + 5);
  const auto order = built->gradient_order(samples.inputs, samples.labels);
  EXPECT_THAT(order, SizeIs(4));
  EXPECT_GE(order[0], 2) << "the last layer's gradients come first";
  Bound model(std::move(built), DType::Float32, DType::Float32, order);
  const double start = model.step(samples).loss_sum;
  EXPECT_THAT(model.marks, ElementsAre(0, 1, 2, 3));
  for (int i = 0; i < 20; ++i) {
    model.step(samples);
    model.descend(0.3);
  }
  EXPECT_LT(model.step(samples).loss_sum, 0.8 * start);
  EXPECT_EQ(model->copies().copies, 0) << "gradients are born in their places";
}

TEST(ExportedModel, GradientsAreDerivativesInDoublePrecision) {
  // The graph was exported in float32, and names that type for the states that the lstm begins with.
  const Samples samples = make_samples(kSequences, 5);
  auto built = load(path_of("lstm.pt2"), kSequences, DType::Float64);
  const auto values = built->parameters();
  Bound model(load(path_of("lstm.pt2"), kSequences, DType::Float64), DType::Float64, DType::Float64);
  model.step(samples);
  const auto gradient = model.gradient("layers.weight_ih_l0");
  for (std::size_t i : {0UL, 7UL, 17UL}) {
    auto loss_at = [&](double shift) {
      auto moved = values;
      moved[i] += shift;
      built->set_parameters(moved);
      return built->evaluate(samples.inputs, samples.labels).loss_sum / 5;
    };
    EXPECT_NEAR((loss_at(1e-5) - loss_at(-1e-5)) / 2e-5, gradient[i], 1e-8);
  }
}

TEST(ExportedModel, ExportedInDoublePrecisionTrainsInSingle) {
  const Samples samples = make_samples(kSequences, 5);
  Bound model(load(path_of("double.pt2"), kSequences));
  const double start = model.step(samples).loss_sum;
  for (int i = 0; i < 20; ++i) {
    model.step(samples);
    model.descend(0.3);
  }
  EXPECT_LT(model.step(samples).loss_sum, start);
}

TEST(ExportedModel, SharedParametersTravelOnce) {
  auto model = load(path_of("tied.pt2"), kRows);
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : model->spec().parameters) names.push_back(parameter.name);
  EXPECT_THAT(names, ElementsAre("first.weight", "first.bias", "second.bias", "head.weight", "head.bias"));
}

TEST(ExportedModel, BuffersChangeInTrainingAndRoundTrip) {
  const Samples samples = make_samples(kRows, 4);
  Bound model(load(path_of("statistics.pt2"), kRows));
  ASSERT_THAT(model->spec().buffers, SizeIs(3));
  const auto initial = model->buffers();
  model->gradient_order(samples.inputs, samples.labels);
  model->evaluate(samples.inputs, samples.labels);
  EXPECT_EQ(model->buffers(), initial);
  model.step(samples, 2);
  const auto buffers = model->buffers();
  EXPECT_NE(buffers[0], initial[0]);
  EXPECT_EQ(buffers[6], 4) << "samples seen";
  Bound other(load(path_of("statistics.pt2"), kRows));
  other->set_buffers(buffers);
  EXPECT_EQ(other->evaluate(samples.inputs, samples.labels).loss_sum,
            model->evaluate(samples.inputs, samples.labels).loss_sum);
}

TEST(ExportedModel, DropoutDiffersByRankAndStepAndContinues) {
  const Samples samples = make_samples(kRows, 16);
  Bound first(load(path_of("dropout.pt2"), kRows)),
      second(load(path_of("dropout.pt2"), kRows, DType::Float32, {}, 1));
  first.step(samples);
  second.step(samples);
  EXPECT_NE(first.all_gradients(), second.all_gradients());
  const auto state = first->random_state();
  const auto buffers = first->buffers();
  first.step(samples);
  Bound other(load(path_of("dropout.pt2"), kRows));
  other->set_random_state(ConstView(state.data(), state.size()));
  other->set_buffers(buffers);
  other.step(samples);
  EXPECT_EQ(other.all_gradients(), first.all_gradients());
}

TEST(ExportedModel, FrozenByThePlan) {
  auto model = load(path_of("mlp.pt2"), kImages, DType::Float32, {"1.*"});
  EXPECT_FALSE(model->spec().parameters[0].trainable);
  EXPECT_TRUE(model->spec().parameters[2].trainable);
}

TEST(ExportedModel, InputsAreNotWrittenTo) {
  // relu_ of the batch itself.
  Forged forged("tied");
  const std::string path = forged.graph("torch.ops.aten.tanh.default", "torch.ops.aten.relu_.default")
                               .graph("{\"as_tensor\": {\"name\": \"linear\"}}, \"kind\"",
                                      "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"")
                               .save();
  const Samples samples = make_samples(kRows, 4), before = samples;
  Bound model(load(path, kRows));
  model.step(samples);
  EXPECT_EQ(samples.inputs, before.inputs);
  EXPECT_THAT(model.gradient("head.bias"), SizeIs(5));
}

TEST(ExportedModel, ShapesThatDoNotFitTheDataAreSaidWithBoth) {
  EXPECT_THAT(complaint(path_of("mlp.pt2"), {{3, 8, 8}, 5}),
              HasSubstr("takes inputs of shape [batch, 1, 6, 6], and the data set's are [batch, 3, 8, 8]"));
  EXPECT_THAT(complaint(path_of("mlp.pt2"), {{36}, 5}), HasSubstr("[batch, 36]"));
  EXPECT_THAT(complaint(path_of("mlp.pt2"), {{1, 6, 6}, 10}),
              HasSubstr("gives logits of shape [batch, 5], and the data set wants [batch, 10]"));
  EXPECT_THAT(complaint(path_of("two_inputs.pt2"), kRows), HasSubstr("takes 2 tensors"));
  EXPECT_THAT(complaint(path_of("gpt.pt2"), kRows), HasSubstr("takes inputs of type Long"));
}

TEST(ExportedModel, BatchesOfOneSize) {
  const std::string batch =
      "{\"as_expr\": {\"expr_str\": \"Symbol('s31', positive=True, integer=True)\", \"hint\": {\"as_int\": "
      "6}}}";
  EXPECT_THAT(
      complaint(Forged("mlp").graph(batch, "{\"as_int\": 6}").save(), kImages),
      HasSubstr(
          "takes inputs of shape [6, 1, 6, 6] only, all of one batch size: export it with dynamic_shapes"));
}

TEST(ExportedModel, BatchesLargerThanExportedFor) {
  auto model = load(Forged("mlp").graph("\"max_val\": null", "\"max_val\": 4").save(), kImages);
  const Samples few = make_samples(kImages, 4), many = make_samples(kImages, 5);
  EXPECT_GT(model->evaluate(few.inputs, few.labels).loss_sum, 0);
  EXPECT_THROW(model->evaluate(many.inputs, many.labels), Error);
}

}  // namespace
}  // namespace taxon::model::exported
