// The bundled language model; networks_test.cc has what PyTorch computes for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/bench.h"
#include "plan/legality.h"
#include "support/distance.h"

namespace taxon::model {
namespace {

using test::norm;
using ::testing::HasSubstr;

constexpr int kTokens = 11, kWindow = 6, kWindows = 3;

data::SampleShape shape_of(std::int64_t context = kWindow) {
  return {.input = {context}, .classes = kTokens, .input_type = DType::Int64, .target = {context}};
}

plan::ModelPlan small(plan::Options options = {{"layers", 2}, {"width", 8}, {"heads", 2}}) {
  return {.name = "gpt", .options = std::move(options)};
}

std::unique_ptr<Model> make_gpt(const plan::ModelPlan& plan, DType compute = DType::Float32,
                                const data::SampleShape& shape = shape_of()) {
  return make_model({.plan = &plan, .shape = shape, .compute = compute, .seed = 11});
}

struct Text {
  std::vector<std::int64_t> tokens, targets;
};

Text make_text(int samples = kWindows, std::int64_t context = kWindow) {
  Text text;
  for (int s = 0; s < samples; ++s)
    for (std::int64_t t = 0; t < context; ++t) {
      text.tokens.push_back((5 * s + 3 * t + t * t) % kTokens);
      text.targets.push_back((5 * s + 3 * (t + 1) + (t + 1) * (t + 1)) % kTokens);
    }
  return text;
}

StepInput input_of(const Text& text, int micro_batches = 1, std::int64_t global_size = 0) {
  const auto size = static_cast<std::int64_t>(text.targets.size()) / kWindow;
  return {.inputs = text.tokens,
          .labels = text.targets,
          .global_size = global_size > 0 ? global_size : size,
          .micro_batches = micro_batches,
          .targets = kWindow};
}

TEST(Gpt, SharesAndMicroBatchesAreWeightedByTokens) {
  const plan::ModelPlan plan = small();
  const Text text = make_text(4);
  Recorder recorder;
  Bound whole(make_gpt(plan, DType::Float64), DType::Float64, DType::Float64);
  const StepOutput expected = whole->forward_backward(input_of(text), 0, recorder);
  std::vector<double> sum(whole.all_gradients().size(), 0.0);
  double loss = 0;
  for (int share = 0; share < 2; ++share) {
    const auto half = static_cast<std::ptrdiff_t>(2 * kWindow);
    const Text mine{{text.tokens.begin() + share * half, text.tokens.begin() + (share + 1) * half},
                    {text.targets.begin() + share * half, text.targets.begin() + (share + 1) * half}};
    Bound part(make_gpt(plan, DType::Float64), DType::Float64, DType::Float64);
    loss += part->forward_backward(input_of(mine, 2, 4), 0, recorder).loss_sum;
    const auto gradients = part.all_gradients();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[i];
  }
  EXPECT_NEAR(loss, expected.loss_sum, 1e-11);
  const auto all = whole.all_gradients();
  double most = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) most = std::max(most, std::abs(sum[i] - all[i]));
  EXPECT_LT(most, 1e-13 * std::max(1.0, norm(all)));
}

/// Another last token changes what comes after it, and nothing before: whatever targets these have, the loss
/// changes by the same.
TEST(Gpt, NoTokenSeesALaterOne) {
  const plan::ModelPlan plan = small();
  Bound model(make_gpt(plan));
  Text text = make_text(1), other = text;
  other.tokens.back() = (text.tokens.back() + 1) % kTokens;
  std::vector<double> changes;
  for (std::int64_t target : {0, 1, 2}) {
    for (int t = 0; t + 1 < kWindow; ++t) text.targets[static_cast<std::size_t>(t)] = target;
    changes.push_back(model->evaluate(text.tokens, text.targets).loss_sum -
                      model->evaluate(other.tokens, text.targets).loss_sum);
  }
  EXPECT_GT(std::abs(changes[0]), 1e-4);
  EXPECT_NEAR(changes[0], changes[1], 1e-5);
  EXPECT_NEAR(changes[0], changes[2], 1e-5);
}

TEST(Gpt, GradientsOfBFloat16AreNearThoseOfFloat32) {
  const plan::ModelPlan plan = small();
  const Text text = make_text();
  Bound wide(make_gpt(plan)), narrow(make_gpt(plan, DType::BFloat16), DType::BFloat16, DType::Float32);
  Recorder recorder;
  const double loss = wide->forward_backward(input_of(text), 0, recorder).loss_sum;
  EXPECT_NEAR(narrow->forward_backward(input_of(text), 0, recorder).loss_sum / loss, 1, 0.01);
  const auto a = wide.all_gradients(), b = narrow.all_gradients();
  std::vector<double> difference;
  for (std::size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] - b[i]);
  EXPECT_LT(norm(difference) / norm(a), 0.05);
}

TEST(Gpt, OrderHasEveryParameterOnce) {
  const Text text = make_text();
  auto model = make_gpt(small());
  std::vector<int> order = model->gradient_order(text.tokens, text.targets);
  EXPECT_EQ(model->spec().parameters[static_cast<std::size_t>(order.front())].name.substr(0, 4), "ln_f");
  std::sort(order.begin(), order.end());
  ASSERT_EQ(order.size(), model->spec().parameters.size());
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
  EXPECT_FALSE(model->spec().divisible);  // the last stage reads the first one's weight
}

TEST(Gpt, OperationsAreThoseOfTheStageThatComputesThem) {
  const plan::ModelPlan plan = small();
  const auto model = make_gpt(plan);
  for (const Segment& segment : model->spec().segments) {
    const bool looks_up = segment.name == "wte" || segment.name == "wpe";
    EXPECT_EQ(segment.forward_flops > 0, !looks_up) << segment.name;  // ln_f's are the logits'
  }
}

TEST(Gpt, WritesWhatItLearnt) {
  const plan::ModelPlan plan = small();
  Bound model(make_gpt(plan));
  Recorder recorder;
  Text text;  // 0 1 2 ... 10 0 1 ...
  for (int s = 0; s < kTokens; ++s)
    for (int t = 0; t < kWindow; ++t) {
      text.tokens.push_back((s + t) % kTokens);
      text.targets.push_back((s + t + 1) % kTokens);
    }
  for (int step = 0; step < 300; ++step) {
    model->forward_backward(input_of(text), 0, recorder);
    model.descend(1);
  }
  const std::int64_t prompt[] = {7, 8};
  const auto written = model->write(prompt, 9, 1);
  EXPECT_EQ(written, (std::vector<std::int64_t>{9, 10, 0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(model->write(prompt, 9, 1), written);
}

TEST(Gpt, RefusesWhatDoesNotFit) {
  auto refusal = [](const plan::ModelPlan& plan, const data::SampleShape& shape) -> std::string {
    try {
      make_gpt(plan, DType::Float32, shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(small(), {{1, 12, 12}, 5}),
              HasSubstr("model gpt takes tokens, and samples of the data set "
                        "have inputs float32 [1, 12, 12]"));
  EXPECT_THAT(refusal({.name = "cnn"}, shape_of()), HasSubstr("model cnn takes numbers"));
  EXPECT_THAT(refusal(small({{"width", 8}, {"heads", 2}, {"context", 64}}), shape_of()),
              HasSubstr("model.context: is 64, and windows of the data set have 6 tokens"));
}

TEST(Gpt, HeadsDivideTheWidth) {
  plan::Catalogue known;
  known.models = known_models();
  plan::Plan plan;
  plan.batch.global = 8;
  plan.length.steps = 1;
  plan.model = small({{"width", 10}, {"heads", 4}});
  const auto problems = plan::check_plan(plan, 1, known);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].key, "model.heads");
  EXPECT_THAT(problems[0].sentence, HasSubstr("must divide model.width: width is 10, heads is 4"));
}

}  // namespace
}  // namespace taxon::model
