#include "model/task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "model/bench.h"
#include "model/perceptron.h"

namespace taxon::model {
namespace {

using ::testing::HasSubstr;

const data::SampleShape kTinyImages{{1, 4, 4}, 7};
const data::SampleShape kShortText{
    .input = {6}, .classes = 256, .input_type = DType::Int64, .target = {6}, .bytes = true};

std::string refusal(const plan::TaskPlan& plan, const data::SampleShape& shape) {
  try {
    make_task(plan, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "";
}

TEST(Task, IsWhatFitsTheSamples) {
  EXPECT_EQ(make_task({}, kTinyImages).name, "classification");
  EXPECT_EQ(make_task({}, kShortText).name, "language_model");
  EXPECT_THAT(refusal({.name = "language_model"}, kTinyImages),
              HasSubstr("language_model does not fit samples that have inputs float32 [1, 4, 4]"));
  EXPECT_THAT(refusal({.name = "classification"}, kShortText), HasSubstr("targets int64 [6]"));
  data::SampleShape other = kShortText;
  other.target = {2};
  EXPECT_THAT(refusal({}, other), HasSubstr("none of \"auto\" fits"));
}

TEST(Task, CountsTheFiveLikeliestOfMoreThanFive) {
  const plan::TaskPlan plan{.name = "classification", .options = {{"top5", true}}};
  const Task task = make_task(plan, kTinyImages);
  EXPECT_EQ(task.counts, 2u);
  const Scores scores{task.metrics, {.loss = 1, .counts = {0.25, 0.75}}};
  EXPECT_EQ(scores["accuracy"], 0.25);
  EXPECT_EQ(scores["top5_accuracy"], 0.75);
  EXPECT_TRUE(std::isnan(scores["perplexity"]));
  EXPECT_THAT(refusal(plan, {{1, 4, 4}, 5}), HasSubstr("task.top5: every label of 5 classes"));
}

const data::SampleShape kTable{.input = {3}, .classes = 2, .target = {2}, .target_type = DType::Float32};

TEST(Task, RealTargetsAreRegressions) {
  const Task task = make_task({}, kTable);
  EXPECT_EQ(task.name, "regression");
  EXPECT_THAT(refusal({.name = "classification"}, kTable),
              HasSubstr("does not fit samples that have inputs float32 [3] and targets float32 [2]"));
  EXPECT_THAT(refusal({.name = "regression"}, kTinyImages), HasSubstr("regression does not fit"));
  EXPECT_EQ(refusal({.name = "regression"}, kTable), "");
  // Targets of 1 and 3 that 2 and 5 were said of.
  const Scores scores{task.metrics, {.loss = 9, .counts = {2.5, 1.5, 2, 5}}};
  EXPECT_DOUBLE_EQ(scores["mse"], 2.5);
  EXPECT_DOUBLE_EQ(scores["mae"], 1.5);
  EXPECT_DOUBLE_EQ(scores["r2"], -1.5);
}

TEST(Task, ThePerceptronRefusesRealTargets) {
  const plan::ModelPlan plan{.name = "perceptron"};
  try {
    make_model({.plan = &plan, .shape = kTable});
    ADD_FAILURE() << "made";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("perceptron has the loss of classes only"));
  }
}

/// Of a part of a batch, micro-batch by micro-batch, with the whole batch's weight.
TEST(Task, TheSquaredErrorsGradientAndCountsAreTheirDefinitions) {
  const plan::ModelPlan plan{.name = "mlp"};
  const auto make = [&] {
    return std::make_unique<Bound>(
        make_model({.plan = &plan, .shape = kTable, .compute = DType::Float64, .seed = 11}), DType::Float64,
        DType::Float64);
  };
  const Samples samples = make_samples(kTable, 5);
  const std::vector<float> targets = {0.5F, -1, 2, 0, 0.25F, 1, -3, 1, 0, 4};
  constexpr std::int64_t kGlobal = 8;
  const auto model = make();
  Recorder marks;
  const StepOutput output = (*model)->forward_backward(
      {.inputs = samples.inputs, .labels = targets, .global_size = kGlobal, .micro_batches = 2, .targets = 2},
      0, marks);
  const StepOutput tested = (*model)->evaluate(samples.inputs, targets);
  EXPECT_NEAR(output.loss_sum, tested.loss_sum, 1e-12);
  double sum = 0, squares = 0;
  for (float target : targets) sum += target, squares += target * target;
  EXPECT_DOUBLE_EQ(output.counts[2], sum);
  EXPECT_DOUBLE_EQ(output.counts[3], squares);
  EXPECT_NEAR(output.counts[0], output.loss_sum, 1e-12);
  double losses[2];
  for (int side : {0, 1}) {
    const auto moved = make();
    for (const auto& slot : moved->binding().layout->slots())
      if (slot.name == "fc3.bias") moved->weights.values<double>(slot.range)[1] += side == 0 ? -1e-5 : 1e-5;
    losses[side] = (*moved)->evaluate(samples.inputs, targets).loss_sum / (2.0 * kGlobal);
  }
  EXPECT_NEAR(model->gradient("fc3.bias")[1], (losses[1] - losses[0]) / 2e-5, 1e-8);
}

TEST(Task, ScoresOfTextAreMadeOfTheLoss) {
  const LabelMeans means{.loss = 2 * std::log(2.0)};
  const Scores bytes{make_task({}, kShortText).metrics, means};
  EXPECT_EQ(bytes.metrics.front().name, "bits_per_byte");
  EXPECT_DOUBLE_EQ(bytes["bits_per_byte"], 2);
  EXPECT_DOUBLE_EQ(bytes["perplexity"], 4);
  data::SampleShape words = kShortText;
  words.bytes = false;
  const Scores tokens{make_task({}, words).metrics, means};
  EXPECT_EQ(tokens.metrics.size(), 1u);
  EXPECT_TRUE(std::isnan(tokens["bits_per_byte"]));
}

/// Label smoothing and counts of the plain model and of libtorch's are the same function of logits.
TEST(Task, PerceptronsGradientIsTheSmoothedLosss) {
  PerceptronOptions options{.shape = kTinyImages, .seed = 3};
  options.task = make_task({.name = "classification", .options = {{"label_smoothing", 0.2}, {"top5", true}}},
                           kTinyImages);
  Bound model(std::make_unique<Perceptron>(options), DType::Float64, DType::Float64);
  const Samples samples = make_samples(kTinyImages, 5);
  const StepOutput output = model.step(samples);
  const double bias = model.gradient("out.bias")[2];
  EXPECT_GT(output.counts[1], output.counts[0]);
  const double step = 1e-5;
  double loss[2];
  for (int side : {0, 1}) {
    Bound moved(std::make_unique<Perceptron>(options), DType::Float64, DType::Float64);
    auto slot = moved.binding().layout->slots()[3].range;
    ASSERT_EQ(moved.binding().layout->slots()[3].name, "out.bias");
    moved.weights.values<double>(slot)[2] += side == 0 ? -step : step;
    loss[side] = moved.step(samples).loss_sum / 5;
  }
  EXPECT_NEAR(bias, (loss[1] - loss[0]) / (2 * step), 1e-8);
  // Tests have the plain cross-entropy.
  options.task = make_task({}, kTinyImages);
  Bound plain(std::make_unique<Perceptron>(options), DType::Float64, DType::Float64);
  EXPECT_EQ(model->evaluate(samples.inputs, samples.labels).loss_sum,
            plain->evaluate(samples.inputs, samples.labels).loss_sum);
  EXPECT_NE(plain.step(samples).loss_sum, output.loss_sum);
}

TEST(Task, LibtorchsSmoothingAndCountsAreThePerceptrons) {
  const plan::TaskPlan task{.name = "classification", .options = {{"label_smoothing", 0.3}, {"top5", true}}};
  const plan::ModelPlan plan{.name = "mlp"};
  const data::SampleShape shape{{3}, 7};
  Bound smoothed(make_model({.plan = &plan, .task = &task, .shape = shape, .seed = 11}));
  Bound plain(make_model({.plan = &plan, .shape = shape, .seed = 11}));
  const Samples samples = make_samples(shape, 9);
  const StepOutput output = smoothed.step(samples), without = plain.step(samples);
  EXPECT_NE(output.loss_sum, without.loss_sum);
  EXPECT_EQ(output.counts[0], without.counts[0]);
  EXPECT_GE(output.counts[1], output.counts[0]);
  EXPECT_EQ(without.counts[1], 0);
  const StepOutput tested = smoothed->evaluate(samples.inputs, samples.labels);
  EXPECT_NEAR(tested.loss_sum, without.loss_sum, 1e-5);
  EXPECT_EQ(tested.counts, output.counts);
  // (1 - s) of the cross-entropy, and s of its mean over all labels.
  double everywhere = 0;
  for (int c = 0; c < shape.classes; ++c) {
    const std::vector<std::int64_t> labels(samples.labels.size(), c);
    everywhere += plain->evaluate(samples.inputs, labels).loss_sum / shape.classes;
  }
  EXPECT_NEAR(output.loss_sum, 0.7 * without.loss_sum + 0.3 * everywhere, 1e-5);
}

}  // namespace
}  // namespace taxon::model
