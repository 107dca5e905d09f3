// Bundled networks against what PyTorch computed for them (recorded/record.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "model/bench.h"
#include "plan/legality.h"
#include "plan/profile.h"

namespace taxon::model {
namespace {

using ::testing::HasSubstr;

// As in the script.
constexpr int kClasses = 11, kSamples = 3;
constexpr std::int64_t kRecordedContext = 6;
const data::SampleShape kRecordedText{{kRecordedContext}, kClasses, DType::Int64, {kRecordedContext}};
const data::SampleShape kSmallImages{{3, 8, 12}, kClasses};
const data::SampleShape kLargeImages{{3, 32, 40}, kClasses};

struct NetworkCase {
  std::string file;
  plan::ModelPlan plan;  // but for the width, where it has one
  data::SampleShape shape;
  DType type = DType::Float64;
  double tolerance = 1e-9;

  bool is_text() const { return shape.input_type == DType::Int64; }
  std::unique_ptr<Model> make(int width) const {
    plan::ModelPlan of_width = plan;
    if (!plan.name.starts_with("resnet")) of_width.options.set("width", width);
    return make_model({.plan = &of_width, .shape = shape, .compute = type, .seed = 11});
  }
  friend void PrintTo(const NetworkCase& c, std::ostream* out) { *out << c.file; }
};

/// Three numbers for a name.
struct Line {
  std::string name;
  double values[3];
};

struct Recorded {
  explicit Recorded(const std::string& name) {
    std::ifstream file(std::string(TAXON_SOURCE_DIR) + "/tests/model/recorded/" + name + ".txt");
    std::string text, kind;
    while (std::getline(file, text)) {
      std::istringstream line(text);
      line >> kind;
      if (kind == "loss") {
        line >> loss;
      } else if (kind == "evaluation") {
        line >> evaluation;
      } else {
        Line& read = (kind == "initial" ? initial : gradients).emplace_back();
        line >> read.name >> read.values[0] >> read.values[1] >> read.values[2];
      }
      EXPECT_TRUE(line) << text;
    }
  }
  double loss = 0, evaluation = 0;
  std::vector<Line> gradients, initial;
};

/// As the script makes it.
struct Batch {
  explicit Batch(const NetworkCase& c) {
    if (c.is_text()) {
      for (int s = 0; s < kSamples; ++s)
        for (std::int64_t t = 0; t < kRecordedContext; ++t) {
          tokens.push_back((5 * s + 3 * t + t * t) % kClasses);
          labels.push_back((5 * s + 3 * (t + 1) + (t + 1) * (t + 1)) % kClasses);
        }
      return;
    }
    for (std::int64_t i = 0; i < kSamples * c.shape.elements(); ++i)
      numbers.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i))));
    for (int s = 0; s < kSamples; ++s) labels.push_back((7 * s + 3) % kClasses);
  }
  data::Inputs inputs() const {
    if (tokens.empty()) return numbers;
    return tokens;
  }
  std::vector<float> numbers;
  std::vector<std::int64_t> tokens, labels;
};

std::vector<double> values_for(const ModelSpec& spec) {
  std::vector<double> values;
  for (std::size_t p = 0; p < spec.parameters.size(); ++p) {
    const ParameterSpec& parameter = spec.parameters[p];
    const auto count = static_cast<double>(parameter.count());
    const double scale =
        parameter.shape.size() < 2 ? 0.5 : 1 / std::sqrt(count / static_cast<double>(parameter.shape[0]));
    for (std::int64_t i = 0; i < parameter.count(); ++i)
      values.push_back(scale * std::sin(1.0 + 3 * static_cast<double>(p) + 0.7 * static_cast<double>(i)));
  }
  return values;
}

class Recordings : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(Recordings, LossAndGradientsArePyTorchs) {
  const NetworkCase& c = GetParam();
  const Recorded recorded(c.file);
  auto model = c.make(8);
  model->set_parameters(values_for(model->spec()));
  Bound bound(std::move(model), c.type, c.type);
  const Batch batch(c);
  const auto labels = static_cast<double>(batch.labels.size());
  Recorder marks;
  const StepOutput output = bound->forward_backward({.inputs = batch.inputs(),
                                                     .labels = batch.labels,
                                                     .global_size = kSamples,
                                                     .targets = c.shape.targets()},
                                                    0, marks);
  EXPECT_NEAR(output.loss_sum / labels, recorded.loss, c.tolerance * recorded.loss);
  ASSERT_EQ(recorded.gradients.size(), bound->spec().parameters.size());
  for (std::size_t p = 0; p < recorded.gradients.size(); ++p) {
    const auto& [name, expected] = recorded.gradients[p];
    ASSERT_EQ(bound->spec().parameters[p].name, name);
    double sum = 0, squares = 0, ramp = 0;
    const std::vector<double> gradient = bound.gradient(name);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      sum += gradient[i];
      squares += gradient[i] * gradient[i];
      ramp += gradient[i] * static_cast<double>(i + 1);
    }
    const double most = c.tolerance * std::max(expected[1], 1e-3);
    const auto count = static_cast<double>(gradient.size());
    EXPECT_NEAR(std::sqrt(squares), expected[1], most) << name;
    EXPECT_NEAR(sum, expected[0], most * std::sqrt(count)) << name;
    EXPECT_NEAR(ramp, expected[2], most * count * std::sqrt(count)) << name;
  }
  const StepOutput evaluated = bound->evaluate(batch.inputs(), batch.labels);
  EXPECT_NEAR(evaluated.loss_sum / labels, recorded.evaluation, c.tolerance * recorded.evaluation);
}

/// By their mean, their deviation and the mean of what they are without sign, which tells distributions of
/// one deviation apart.
TEST_P(Recordings, InitialValuesHavePyTorchsDistribution) {
  const NetworkCase& c = GetParam();
  const Recorded recorded(c.file);
  const auto model = c.make(64);
  const std::vector<double> all = model->parameters();
  ASSERT_EQ(recorded.initial.size(), model->spec().parameters.size());
  std::size_t at = 0;
  for (std::size_t p = 0; p < recorded.initial.size(); ++p) {
    const auto& [name, expected] = recorded.initial[p];
    const ParameterSpec& parameter = model->spec().parameters[p];
    ASSERT_EQ(parameter.name, name);
    double sum = 0, squares = 0, without_sign = 0;
    const auto count = static_cast<double>(parameter.count());
    for (std::int64_t i = 0; i < parameter.count(); ++i, ++at) {
      sum += all[at];
      squares += all[at] * all[at];
      without_sign += std::abs(all[at]);
    }
    const double mean = sum / count, deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
    // Both are samples. Recorded with six digits.
    const double most = 5 * expected[1] / std::sqrt(count) + 1e-5 * std::abs(expected[0]);
    EXPECT_NEAR(mean, expected[0], most) << name;
    EXPECT_NEAR(deviation, expected[1], most) << name;
    EXPECT_NEAR(without_sign / count, expected[2], most) << name;
  }
}

class InBFloat16 : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(InBFloat16, GradientsAreNearThoseOfFloat32) {
  NetworkCase c = GetParam();
  const Batch batch(c);
  const StepInput input{.inputs = batch.inputs(),
                        .labels = batch.labels,
                        .global_size = kSamples,
                        .targets = c.shape.targets()};
  const auto gradients_of = [&](DType type) {
    c.type = type;
    auto model = c.make(8);
    model->set_parameters(values_for(model->spec()));
    Bound bound(std::move(model), type, DType::Float32);
    Recorder marks;
    bound->forward_backward(input, 0, marks);
    return bound.all_gradients();
  };
  const std::vector<double> wide = gradients_of(DType::Float32), narrow = gradients_of(DType::BFloat16);
  double apart = 0, length = 0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    apart += (wide[i] - narrow[i]) * (wide[i] - narrow[i]);
    length += wide[i] * wide[i];
  }
  EXPECT_LT(std::sqrt(apart / length), 0.1);
  EXPECT_GT(std::sqrt(apart / length), 1e-4);
}

plan::ModelPlan blocks(const char* name) { return {.name = name, .options = {{"layers", 2}, {"heads", 2}}}; }

std::string name_of(const ::testing::TestParamInfo<NetworkCase>& info) {
  std::string name = info.param.file + "_" + std::string(to_string(info.param.type));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

const NetworkCase kInFloat[] = {NetworkCase{"gpt", blocks("gpt"), kRecordedText, DType::Float32, 1e-5},
                                NetworkCase{"vit", blocks("vit"), kSmallImages, DType::Float32, 1e-5},
                                NetworkCase{"lstm", {.name = "lstm"}, kRecordedText, DType::Float32, 1e-5}};

INSTANTIATE_TEST_SUITE_P(
    InDouble, Recordings,
    ::testing::Values(NetworkCase{"gpt", blocks("gpt"), kRecordedText},
                      NetworkCase{"vit", blocks("vit"), kSmallImages},
                      NetworkCase{"lstm", {.name = "lstm"}, kRecordedText},
                      NetworkCase{"lstm-tied", {.name = "lstm", .options = {{"tied", true}}}, kRecordedText},
                      // Gradients as long as 1e5: channels of next to no variance are normalised, and what
                      // a processor's order of sums leaves is 1e-9 behind them.
                      NetworkCase{"resnet50", {.name = "resnet50"}, kSmallImages, DType::Float64, 1e-7},
                      NetworkCase{
                          "resnet50-7x7", {.name = "resnet50", .options = {{"stem", "7x7"}}}, kLargeImages}),
    name_of);
INSTANTIATE_TEST_SUITE_P(InFloat, Recordings, ::testing::ValuesIn(kInFloat), name_of);
INSTANTIATE_TEST_SUITE_P(Networks, InBFloat16, ::testing::ValuesIn(kInFloat), name_of);

TEST(Resnet50, HasThePublishedLayers) {
  const plan::ModelPlan plan{.name = "resnet50", .options = {{"stem", "7x7"}}};
  const auto model = make_model({.plan = &plan, .shape = {{3, 32, 32}, 1000}, .seed = 1});
  const plan::ModelProfile profile =
      plan::read_profile(std::string(TAXON_SOURCE_DIR) + "/profiles/resnet50.yaml");
  std::size_t at = 0;
  for (const plan::SegmentProfile& segment : profile.segments)
    for (const plan::ParameterProfile& parameter : segment.parameters) {
      ASSERT_LT(at, model->spec().parameters.size());
      EXPECT_EQ(model->spec().parameters[at].name, parameter.name);
      EXPECT_EQ(model->spec().parameters[at++].shape, parameter.shape) << parameter.name;
    }
  EXPECT_EQ(at, model->spec().parameters.size());
  EXPECT_EQ(model->spec().parameter_count(), 25'557'032);
}

TEST(Lstm, StagesAreItsLayers) {
  const plan::ModelPlan plan{.name = "lstm", .options = {{"layers", 11}, {"width", 4}}};
  const auto model = make_model({.plan = &plan, .shape = kRecordedText, .seed = 1});
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.segments.size(), 13U);
  EXPECT_EQ(spec.segments[11].name, "rnn.l10");
  for (const Segment& segment : spec.segments) {
    EXPECT_FALSE(segment.parameters.empty()) << segment.name;
    const bool is_layer = segment.name.starts_with("rnn.");
    for (int p : segment.parameters)
      EXPECT_EQ(spec.parameters[static_cast<std::size_t>(p)].name.ends_with(segment.name.substr(4)), is_layer)
          << segment.name;
    EXPECT_EQ(segment.forward_flops > 0, segment.name != "encoder") << segment.name;
  }
  EXPECT_TRUE(spec.divisible);
}

TEST(Networks, SayWhatDoesNotFit) {
  const auto refusal = [](const plan::ModelPlan& plan, const data::SampleShape& shape) -> std::string {
    try {
      make_model({.plan = &plan, .shape = shape, .seed = 1});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.name = "vit", .options = {{"patch", 5}}}, kSmallImages),
              HasSubstr("model.patch: is 5, and images of the data set are 8 x 12"));
  EXPECT_THAT(refusal({.name = "vit"}, {{784}, 10}), HasSubstr("[784]"));
  EXPECT_THAT(refusal({.name = "lstm"}, kSmallImages), HasSubstr("model lstm takes tokens"));
  EXPECT_THAT(refusal({.name = "resnet50"}, {{3, 7, 9}, 10}), HasSubstr("at least 8 x 8"));
  EXPECT_THAT(refusal({.name = "resnet50", .options = {{"stem", "7x7"}}}, {{3, 15, 17}, 10}),
              HasSubstr("at least 16 x 16"));
}

TEST(Vit, HeadsDivideTheWidth) {
  plan::Catalogue known;
  known.models = known_models();
  plan::Plan plan;
  plan.batch.global = 8;
  plan.length.steps = 1;
  plan.model = {.name = "vit", .options = {{"width", 10}, {"heads", 4}}};
  const auto problems = plan::check_plan(plan, 1, known);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_THAT(problems[0].sentence, HasSubstr("must divide model.width: width is 10, heads is 4"));
}

}  // namespace
}  // namespace taxon::model
