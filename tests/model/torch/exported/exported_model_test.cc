// Exported programs as models that train.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/bench.h"
#include "model/torch/exported/forged.h"
#include "model/torch/exported/networks.h"
#include "plan/model_file.h"

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
                            int rank = 0, plan::ModelReturns returns = plan::ModelReturns::Logits) {
  plan::ModelPlan plan{.name = path, .frozen = std::move(frozen)};
  plan.options = {{"returns", std::string(plan::to_string(returns))}};
  return make_model({.plan = &plan, .shape = shape, .compute = compute, .seed = 3, .rank = rank});
}

std::unique_ptr<Model> load_loss(const std::string& name, const data::SampleShape& shape,
                                 DType compute = DType::Float64) {
  return load(path_of(name), shape, compute, {}, 0, plan::ModelReturns::Loss);
}

std::string complaint(const std::string& path, const data::SampleShape& shape,
                      plan::ModelReturns returns = plan::ModelReturns::Logits) {
  try {
    load(path, shape, DType::Float32, {}, 0, returns);
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

TEST(ExportedModel, BuffersThatAreNoPartOfTheStateAreMarked) {
  auto model = load(path_of("statistics.pt2"), kRows);
  for (const BufferSpec& buffer : model->spec().buffers)
    EXPECT_EQ(buffer.persistent, buffer.name != "scale") << buffer.name;
}

TEST(ExportedModel, BuffersHaveTheirTypes) {
  auto model = load(path_of("statistics.pt2"), kRows);
  for (const BufferSpec& buffer : model->spec().buffers)
    EXPECT_EQ(buffer.type, buffer.name == "seen" ? DType::Int64 : DType::Float32) << buffer.name;
}

TEST(ExportedModel, WholeNumbersThatDoNotTravelAreRefused) {
  Forged forged("statistics");
  const auto load_with = [&](std::int64_t seen) {
    const std::string bytes(reinterpret_cast<const char*>(&seen), sizeof seen);
    return load(forged.member("data/weights/weight_3", bytes).save(), kRows);
  };
  EXPECT_EQ(load_with((std::int64_t{1} << 53) - 1)->buffers()[6], 0x1p53 - 1);
  try {
    load_with((std::int64_t{1} << 60) + 1);
    ADD_FAILURE() << "it loads";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Data);
    EXPECT_THAT(error.what(), HasSubstr("seen holds whole numbers of 2^53 or more"));
  }
}

TEST(ExportedModel, ComplexNumbersAreRefused) {
  Forged forged("statistics");
  forged.weights(
      "\"is_param\": false, \"use_pickle\": false, \"tensor_meta\": {\"dtype\": 7, \"sizes\": [{\"as_int\": "
      "6}]",
      "\"is_param\": false, \"use_pickle\": false, \"tensor_meta\": {\"dtype\": 10, \"sizes\": [{\"as_int\": "
      "3}]");
  const std::string path = forged.save();
  try {
    load(path, kRows);
    ADD_FAILURE() << "it loads";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Data);
    EXPECT_THAT(error.what(), HasSubstr("mean is complex"));
  }
}

TEST(ExportedModel, OneSampleTeachesABatchNormNothing) {
  Bound model(load(path_of("dropout.pt2"), kRows));
  const auto initial = model->buffers();
  model.step(make_samples(kRows, 1));
  for (const double value : model->buffers()) EXPECT_TRUE(std::isfinite(value));
  model.step(make_samples(kRows, 2));
  EXPECT_NE(model->buffers(), initial);
}

TEST(ExportedModel, BeginsWithAllBitsAndFrozenOnesKeepThem) {
  const auto exact = load(path_of("mlp.pt2"), kImages)->parameters();
  Bound model(load(path_of("mlp.pt2"), kImages, DType::BFloat16, {"1.*"}), DType::BFloat16, DType::Float32);
  const auto bound = model->parameters();
  EXPECT_EQ(load(path_of("mlp.pt2"), kImages, DType::BFloat16)->parameters(), exact);
  const std::size_t frozen = 36 * 16 + 16;
  EXPECT_TRUE(std::equal(bound.begin(), bound.begin() + frozen, exact.begin()));
  EXPECT_NE(bound, exact) << "trained ones are the arena's, of fewer bits";
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

/// Of uneven micro-batches of a part of a batch.
TEST(ExportedModel, ItsOwnLossIsWeightedAsTheTasks) {
  const Samples samples = make_samples(kRows, 7);
  Bound logits(load(path_of("tied.pt2"), kRows, DType::Float64), DType::Float64, DType::Float64);
  const StepOutput expected = logits.step(samples, 3, 11);
  for (const char* name : {"loss.pt2", "loss_alone.pt2"}) {
    Bound model(load_loss(name, kRows), DType::Float64, DType::Float64);
    const bool has_logits = std::string(name) == "loss.pt2";
    const StepOutput output = model.step(samples, 3, 11);
    EXPECT_NEAR(output.loss_sum, expected.loss_sum, 1e-12);
    const auto gradients = model.all_gradients(), others = logits.all_gradients();
    ASSERT_EQ(gradients.size(), others.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) EXPECT_NEAR(gradients[i], others[i], 1e-12);
    const Task& task = model->spec().task;
    EXPECT_EQ(task.metrics.empty(), !has_logits);
    EXPECT_EQ(output.counts[0], has_logits ? expected.counts[0] : 0);
    EXPECT_NEAR(model->evaluate(samples.inputs, samples.labels).loss_sum,
                logits->evaluate(samples.inputs, samples.labels).loss_sum, 1e-12);
  }
}

TEST(ExportedModel, ItsOwnLossOfRealTargetsHasTheTasksScores) {
  const data::SampleShape shape{.input = {6}, .classes = 5, .target = {5}, .target_type = DType::Float32};
  const Samples samples = make_samples(shape, 4);
  std::vector<float> targets;
  for (int i = 0; i < 20; ++i) targets.push_back(0.25F * static_cast<float>(i % 7) - 3);
  const auto squares = load(path_of("tied.pt2"), shape, DType::Float64);
  const auto huber = load_loss("huber.pt2", shape);
  const StepOutput expected = squares->evaluate(samples.inputs, targets);
  const StepOutput output = huber->evaluate(samples.inputs, targets);
  EXPECT_EQ(output.counts, expected.counts);
  EXPECT_LT(output.loss_sum, expected.loss_sum / 2) << "large errors count once";
  EXPECT_EQ(huber->spec().task.name, "regression");
}

TEST(ExportedModel, WhatIsNoLossIsRefused) {
  EXPECT_THAT(complaint(path_of("tied.pt2"), kRows, plan::ModelReturns::Loss),
              HasSubstr("takes 1 tensors, and a batch has 2: inputs float32 [6] and one int64 label"));
  EXPECT_THAT(complaint(path_of("loss.pt2"), kRows), HasSubstr("takes 2 tensors, and a batch has 1"));
  EXPECT_THAT(complaint(path_of("two_inputs.pt2"), {.input = {3}, .classes = 5, .input_type = DType::Int64},
                        plan::ModelReturns::Loss),
              HasSubstr("takes labels of shape [batch, 6], and the data set's are [batch]"));
  EXPECT_THAT(complaint(path_of("huber.pt2"), kRows, plan::ModelReturns::Loss),
              HasSubstr("takes labels of shape [batch, 5], and the data set's are [batch]"));
  EXPECT_THAT(
      complaint(path_of("huber.pt2"), {.input = {6}, .classes = 5, .target = {5}}, plan::ModelReturns::Loss),
      HasSubstr("takes labels of type Float, and the data set's are int64"));
}

struct Words {
  std::vector<std::int64_t> words;
  std::vector<std::uint8_t> mask;
  std::vector<float> numbers;
  std::vector<std::int64_t> labels;
};

Words make_words(std::size_t samples, std::size_t length) {
  Words made;
  for (std::size_t i = 0; i < samples * length; ++i) {
    made.words.push_back(static_cast<std::int64_t>((3 * i * i + i) % 7));
    made.mask.push_back(i % 4 != 1);
  }
  for (std::size_t i = 0; i < samples * 6; ++i) made.numbers.push_back(static_cast<float>(i % 5) - 2);
  for (std::size_t i = 0; i < samples; ++i) made.labels.push_back(static_cast<std::int64_t>(i * 3 % 5));
  return made;
}

/// In double precision though exported in single: tokens stay tokens, ranges of places too.
TEST(ExportedModel, TokensAndMasksComeAsTheyAre) {
  const data::SampleShape shape{
      .input = {5}, .classes = 5, .input_type = DType::Int64, .more = {{{5}, DType::UInt8}}};
  const Words made = make_words(6, 5);
  const data::Inputs inputs(std::vector<data::Values>{made.words, made.mask});
  for (const DType compute : {DType::Float32, DType::Float64}) {
    Bound model(load(path_of("masked.pt2"), shape, compute), compute, compute);
    const auto step = [&] {
      Recorder marks;
      return model->forward_backward({inputs, made.labels, 6, 2}, 0, marks).loss_sum;
    };
    const double start = step();
    EXPECT_NEAR(start, model->evaluate(inputs, made.labels).loss_sum, 1e-5);
    for (int i = 0; i < 20; ++i) {
      step();
      model.descend(0.3);
    }
    EXPECT_LT(step(), 0.8 * start);
    std::vector<std::uint8_t> all(made.mask.size(), 1);
    const data::Inputs unmasked(std::vector<data::Values>{made.words, all});
    EXPECT_NE(model->evaluate(unmasked, made.labels).loss_sum, model->evaluate(inputs, made.labels).loss_sum);
  }
}

TEST(ExportedModel, SeveralInputsInTheOrderOfTheSamples) {
  const data::SampleShape shape{
      .input = {3}, .classes = 5, .input_type = DType::Int64, .more = {{{6}, DType::Float32}}};
  const Words made = make_words(6, 3);
  const data::Inputs inputs(std::vector<data::Values>{made.words, made.numbers});
  const auto model = load(path_of("two_inputs.pt2"), shape);
  const auto part = [&](std::size_t begin, std::size_t size) {
    return data::Inputs(std::vector<data::Values>{std::span(made.words).subspan(3 * begin, 3 * size),
                                                  std::span(made.numbers).subspan(6 * begin, 6 * size)});
  };
  const std::span labels(made.labels);
  EXPECT_NEAR(model->evaluate(inputs, made.labels).loss_sum,
              model->evaluate(part(0, 2), labels.first(2)).loss_sum +
                  model->evaluate(part(2, 4), labels.subspan(2)).loss_sum,
              1e-5);
  data::SampleShape turned{.input = {6}, .classes = 5, .more = {{{3}, DType::Int64}}};
  EXPECT_THAT(complaint(path_of("two_inputs.pt2"), turned),
              HasSubstr("takes inputs of shape [batch, 3], and the data set's are [batch, 6]"));
  turned = {.input = {3}, .classes = 5, .more = {{{6}, DType::Float32}}};
  EXPECT_THAT(complaint(path_of("two_inputs.pt2"), turned),
              HasSubstr("takes inputs of type Long, and the data set's are float32"));
  turned = {.input = {3}, .classes = 5, .input_type = DType::Int64, .more = {{{6}, DType::UInt8}}};
  EXPECT_THAT(complaint(path_of("two_inputs.pt2"), turned),
              HasSubstr("takes inputs 2 of type Float, and the data set's are bool"));
}

TEST(ExportedModel, WindowsOfTokensGiveLogitsForEach) {
  const data::SampleShape shape{.input = {6}, .classes = 11, .input_type = DType::Int64, .target = {6}};
  std::vector<std::int64_t> tokens, targets;
  for (int i = 0; i < 24; ++i) tokens.push_back(i * i % 11), targets.push_back((i + 1) * (i + 1) % 11);
  Bound model(load(path_of("gpt.pt2"), shape));
  Recorder marks;
  const model::StepInput input{.inputs = tokens, .labels = targets, .global_size = 4, .targets = 6};
  const double start = model->forward_backward(input, 0, marks).loss_sum;
  for (int i = 0; i < 20; ++i) {
    model->forward_backward(input, 0, marks);
    model.descend(0.3);
  }
  EXPECT_LT(model->evaluate(tokens, targets).loss_sum, 0.9 * start);
  EXPECT_EQ(model->spec().task.name, "language_model");
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
  EXPECT_EQ(model->spec().largest_batch, 4);
  EXPECT_GT(model->evaluate(few.inputs, few.labels).loss_sum, 0);
  EXPECT_THROW(model->evaluate(many.inputs, many.labels), Error);
}

}  // namespace
}  // namespace taxon::model::exported
