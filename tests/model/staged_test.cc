// Networks of libtorch in stages, against the same network undivided.
#include "model/staged.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "model/pipeline.h"

namespace taxon::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kContext = 6;
const data::SampleShape kImages{{3, 12, 12}, 5};
const data::SampleShape kText{{kContext}, 12, DType::Int64, {kContext}};

bool is_published(const std::string& name) {
  return name == "vgg-a" || name == "alexnet" || name == "overfeat-fast" || name == "cd-dnn";
}

/// A model with samples for it.
struct Subject {
  Subject(std::string name, DType compute, std::vector<std::string> frozen = {}) : type(compute) {
    const bool text = name == "gpt" || name == "lstm";
    shape = text ? kText : kImages;
    if (name == "vgg-a") shape.input = {3, 32, 32};
    if (name == "alexnet" || name == "overfeat-fast") shape.input = {1, 71, 71};
    if (is_published(name)) plan.options = {{"width_multiplier", 1.0 / 16}};
    if (name == "vit" || text) plan.options = {{"layers", 2}, {"width", 8}};
    if (name == "vit" || name == "gpt") plan.options.set("heads", 4);
    if (text) {
      for (std::int64_t i = 0; i < 6 * kContext; ++i) {
        tokens.push_back((3 * i + i * i) % 12);
        samples.labels.push_back((3 * (i + 1) + (i + 1) * (i + 1)) % 12);
      }
    } else {
      samples = make_samples(shape, 6);
    }
    plan.name = std::move(name);
    plan.frozen = std::move(frozen);
  }
  /// What begins as zero (vit's logits) is given values, or nothing would have gradients.
  std::unique_ptr<Model> make() const {
    auto model = make_model({.plan = &plan, .shape = shape, .compute = type, .seed = 11});
    std::vector<double> values = model->parameters();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == 0) values[i] = 0.1 * std::sin(static_cast<double>(i));
    model->set_parameters(values);
    return model;
  }
  MakeModel maker() const {
    return [this] { return make(); };
  }
  StepInput input(std::size_t count) const {
    const auto targets = static_cast<std::size_t>(shape.targets());
    StepInput input{.labels = std::span(samples.labels).first(count * targets),
                    .global_size = static_cast<std::int64_t>(count) + 3,
                    .targets = shape.targets()};
    if (tokens.empty())
      input.inputs = samples.inputs;
    else
      input.inputs = tokens;
    return input;
  }
  DType type;
  data::SampleShape shape;
  plan::ModelPlan plan;
  Samples samples;
  std::vector<std::int64_t> tokens;
};

struct Case {
  std::string model, schedule;
  int stages, micros;
  std::size_t samples = 6;
  DType type = DType::Float64;
  double tolerance = 1e-12;
  int members = 1;
  std::map<std::string, std::string> splits = {};
  bool choose = false;
  double dropout = 0;
};
/// Of members of a tensor axis.
Case split_case(std::string model, int members, std::string schedule = "1f1b", int stages = 1, int micros = 2,
                std::map<std::string, std::string> splits = {}) {
  Case c{std::move(model), std::move(schedule), stages, micros};
  c.members = members;
  c.splits = std::move(splits);
  return c;
}
Case in_float(Case c) {
  c.type = DType::Float32;
  c.tolerance = 1e-5;
  return c;
}
/// Members' summands are rounded before they are added.
Case in_bfloat16(Case c) {
  c.type = DType::BFloat16;
  c.tolerance = 0.05;
  return c;
}
class Stages : public ::testing::TestWithParam<Case> {};

TEST_P(Stages, AreTheUndividedModel) {
  const Case& c = GetParam();
  const Subject subject(c.model, c.type);
  expect_undivided(subject.maker(), c.type, c.schedule, {c.stages, c.micros, c.members, c.splits, c.choose},
                   subject.input(c.samples), c.tolerance);
}

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string name = fmt::format("{}_{}_{}_stages_{}_micros_{}_samples_{}_members_{}", c.model, c.schedule,
                                 c.stages, c.micros, c.samples, to_string(c.type), c.members);
  if (c.choose) name += "_auto";
  for (const auto& [layer, row] : c.splits) name += fmt::format("_{}_{}", layer, row);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(
    Models, Stages,
    ::testing::Values(Case{"mlp", "gpipe", 2, 1}, Case{"mlp", "1f1b", 3, 4}, Case{"mlp", "zb_h1", 3, 6},
                      Case{"mlp", "zb_h1", 2, 5, 3}, Case{"mlp", "1f1b", 2, 3, 0}, Case{"mlp", "gpipe", 1, 2},
                      Case{"mlp", "zb_h1", 2, 4, 6, DType::Float32, 1e-6}, Case{"cnn", "gpipe", 4, 3},
                      Case{"cnn", "1f1b", 2, 2}, Case{"cnn", "zb_h1", 3, 4},
                      Case{"cnn", "1f1b", 3, 3, 6, DType::Float32, 1e-6}, Case{"resnet18", "1f1b", 4, 2, 4},
                      Case{"resnet18", "zb_h1", 3, 3, 3}, Case{"gpt", "gpipe", 2, 2},
                      Case{"gpt", "1f1b", 3, 4}, Case{"gpt", "gpipe", 1, 3}, Case{"gpt", "zb_h1", 4, 6},
                      Case{"gpt", "zb_h1", 4, 8, 5}, Case{"gpt", "interleaved", 4, 4},
                      Case{"gpt", "1f1b", 3, 4, 6, DType::Float32, 1e-6}, Case{"vit", "gpipe", 2, 2},
                      Case{"vit", "1f1b", 3, 4}, Case{"vit", "zb_h1", 4, 6, 5},
                      Case{"vit", "1f1b", 3, 4, 6, DType::Float32, 1e-6}, Case{"lstm", "gpipe", 2, 2},
                      Case{"lstm", "1f1b", 4, 4}, Case{"lstm", "zb_h1", 3, 4, 5},
                      Case{"lstm", "1f1b", 2, 3, 6, DType::Float32, 1e-6}),
    name_of_case);

INSTANTIATE_TEST_SUITE_P(
    Members, Stages,
    ::testing::Values(split_case("mlp", 2), split_case("mlp", 4), split_case("mlp", 2, "1f1b", 2, 3),
                      split_case("mlp", 2, "zb_h1", 3, 4), in_float(split_case("mlp", 4)),
                      split_case("cnn", 2), split_case("cnn", 4), split_case("cnn", 2, "1f1b", 2, 3),
                      split_case("cnn", 2, "zb_h1", 4, 3), in_float(split_case("cnn", 2)),
                      split_case("resnet18", 2, "gpipe", 1, 1), split_case("resnet18", 4, "gpipe", 1, 1),
                      split_case("resnet18", 2, "zb_h1", 2, 1), split_case("resnet18", 2, "zb_h1", 3, 3),
                      in_float(split_case("resnet18", 2, "gpipe", 1, 1)), split_case("gpt", 2),
                      split_case("gpt", 4), split_case("gpt", 2, "1f1b", 2, 3),
                      split_case("gpt", 2, "zb_h1", 4, 6), split_case("gpt", 2, "interleaved", 4, 4),
                      in_float(split_case("gpt", 2)), split_case("gpt", 4, "zb_h1", 4, 6),
                      split_case("gpt", 4, "1f1b", 2, 3), in_bfloat16(split_case("gpt", 4)),
                      split_case("vit", 2), split_case("vit", 4), split_case("vit", 2, "1f1b", 2, 3),
                      split_case("vit", 2, "zb_h1", 4, 6), in_float(split_case("vit", 2)),
                      split_case("lstm", 2), split_case("lstm", 2, "zb_h1", 3, 4),
                      in_float(split_case("lstm", 2)), split_case("resnet50", 2, "zb_h1", 3, 2)),
    name_of_case);

// What no network chooses: every movement there is, behind a cut too.
INSTANTIATE_TEST_SUITE_P(
    Splits, Stages,
    ::testing::Values(split_case("mlp", 2, "1f1b", 1, 2, {{"fc1", "none"}, {"fc2", "inputs"}}),
                      split_case("mlp", 2, "zb_h1", 3, 4, {{"fc1", "none"}, {"fc2", "inputs"}}),
                      split_case("mlp", 2, "1f1b", 1, 2, {{"fc2", "outputs"}, {"fc3", "none"}}),
                      split_case("mlp", 2, "zb_h1", 3, 4, {{"fc2", "outputs"}, {"fc3", "none"}}),
                      split_case("cnn", 2, "1f1b", 1, 2, {{"conv2", "outputs"}, {"fc1", "outputs"}}),
                      split_case("cnn", 2, "zb_h1", 4, 2, {{"conv2", "outputs"}, {"fc1", "outputs"}}),
                      split_case("resnet18", 2, "gpipe", 1, 1, {{"layer1.0", "none"}, {"conv1", "outputs"}}),
                      split_case("gpt", 2, "zb_h1", 2, 3, {{"h.0.attn", "none"}, {"h.1.mlp", "none"}}),
                      split_case("gpt", 2, "1f1b", 2, 3, {{"wte", "none"}})),
    name_of_case);

using Splits = std::map<std::string, std::string>;
const Splits kConvolutions = {{"conv1", "samples"}, {"conv2", "samples"}};
const Splits kToFeatures = {{"conv1", "samples"}, {"conv2", "samples"}, {"fc1", "inputs"}};
const Splits kFromFeatures = {
    {"conv1", "outputs"}, {"conv2", "samples"}, {"fc1", "outputs"}, {"fc2", "samples"}};
const Splits kFromSums = {{"fc1", "outputs"}, {"fc2", "inputs"}, {"fc3", "samples"}};
const Splits kAll = {{"fc1", "samples"}, {"fc2", "samples"}, {"fc3", "samples"}};
const Splits kBlocks = {{"wpe", "samples"}, {"h.0.attn", "samples"}, {"h.1.mlp", "samples"}};
const Splits kWholeGpt = {{"wte", "samples"},     {"wpe", "samples"},      {"h.0.attn", "samples"},
                          {"h.0.mlp", "samples"}, {"h.1.attn", "samples"}, {"h.1.mlp", "samples"},
                          {"ln_f", "samples"}};

const Splits kVitBlocks = {{"conv_proj", "samples"},
                           {"class_token", "samples"},
                           {"encoder.layers.encoder_layer_0.mlp", "samples"},
                           {"encoder.ln", "samples"}};

/// Of samples that members can't share equally, and too few for all.
Case in_few(Case c, std::size_t samples) {
  c.samples = samples;
  return c;
}

// Layers by samples beside layers by features: every movement of samples there is, in one step and in
// several.
INSTANTIATE_TEST_SUITE_P(
    Samples, Stages,
    ::testing::Values(
        split_case("cnn", 2, "1f1b", 1, 1, kConvolutions), split_case("cnn", 4, "1f1b", 1, 2, kConvolutions),
        split_case("cnn", 2, "zb_h1", 3, 4, kConvolutions),
        in_few(split_case("cnn", 4, "1f1b", 1, 2, kConvolutions), 5),
        split_case("cnn", 2, "1f1b", 1, 1, kToFeatures), split_case("cnn", 4, "zb_h1", 3, 2, kToFeatures),
        in_few(split_case("cnn", 4, "1f1b", 2, 3, kToFeatures), 5),
        split_case("cnn", 2, "1f1b", 1, 1, kFromFeatures), split_case("cnn", 4, "zb_h1", 4, 3, kFromFeatures),
        in_few(split_case("cnn", 4, "1f1b", 2, 2, kFromFeatures), 5),
        in_float(split_case("cnn", 2, "1f1b", 1, 1, kToFeatures)),
        split_case("mlp", 2, "1f1b", 1, 1, kFromSums),
        in_few(split_case("mlp", 4, "zb_h1", 3, 2, kFromSums), 5), split_case("mlp", 4, "1f1b", 1, 1, kAll),
        in_few(split_case("mlp", 4, "zb_h1", 3, 4, kAll), 3), split_case("gpt", 2, "1f1b", 1, 2, kBlocks),
        in_few(split_case("gpt", 4, "zb_h1", 2, 2, kBlocks), 5),
        in_few(split_case("gpt", 2, "1f1b", 2, 2, {{"ln_f", "samples"}}), 5),
        split_case("gpt", 2, "1f1b", 1, 2, kWholeGpt), split_case("vit", 2, "1f1b", 1, 2, kVitBlocks),
        in_few(split_case("vit", 4, "zb_h1", 2, 2, kVitBlocks), 5),
        in_few(split_case("lstm", 4, "1f1b", 2, 2), 5),
        split_case("lstm", 2, "zb_h1", 2, 2, {{"decoder", "none"}})),
    name_of_case);

Case chosen(Case c) {
  c.choose = true;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Chosen, Stages,
    ::testing::Values(chosen(split_case("cnn", 2)), chosen(split_case("cnn", 4, "zb_h1", 3, 2)),
                      chosen(split_case("cnn", 2, "1f1b", 1, 1, {{"conv2", "outputs"}})),
                      chosen(split_case("resnet18", 2, "gpipe", 1, 1)), chosen(split_case("gpt", 2)),
                      chosen(split_case("gpt", 2, "1f1b", 1, 2, {{"wte", "vocabulary"}})),
                      chosen(split_case("vit", 2)), chosen(split_case("lstm", 2)),
                      chosen(split_case("resnet50", 2, "gpipe", 1, 1)), chosen(split_case("vgg-a", 2)),
                      chosen(split_case("alexnet", 2, "1f1b", 2, 2)), chosen(split_case("overfeat-fast", 3)),
                      chosen(split_case("cd-dnn", 4)), split_case("vgg-a", 4, "zb_h1", 4, 3),
                      split_case("alexnet", 1, "1f1b", 3, 3), split_case("overfeat-fast", 2),
                      split_case("cd-dnn", 2, "1f1b", 4, 3)),
    name_of_case);

Case with_dropout(Case c) {
  c.dropout = 0.3;
  return c;
}

class Recomputed : public ::testing::TestWithParam<Case> {};

TEST_P(Recomputed, GiveTheBitsOfKeptOnes) {
  const Case& c = GetParam();
  Subject subject(c.model, c.type);
  if (c.dropout > 0) subject.plan.options.set("dropout", c.dropout);
  expect_same_bits_of_recomputed(subject.maker(), c.type, c.schedule,
                                 {c.stages, c.micros, c.members, c.splits}, subject.input(c.samples));
}

INSTANTIATE_TEST_SUITE_P(
    Activations, Recomputed,
    ::testing::Values(Case{"mlp", "gpipe", 2, 3}, Case{"mlp", "zb_h1", 3, 4, 3}, Case{"cnn", "1f1b", 3, 3},
                      Case{"cnn", "zb_h1", 2, 4, 6, DType::Float32}, Case{"resnet18", "1f1b", 4, 4, 4},
                      Case{"resnet18", "zb_h1", 3, 3, 3}, with_dropout({"gpt", "gpipe", 2, 3}),
                      with_dropout({"gpt", "zb_h1", 4, 4}), with_dropout({"gpt", "interleaved", 4, 4}),
                      with_dropout({"cd-dnn", "1f1b", 4, 4}), with_dropout({"alexnet", "1f1b", 3, 3}),
                      split_case("resnet18", 2, "zb_h1", 3, 3), split_case("resnet18", 4, "gpipe", 1, 2),
                      split_case("gpt", 2, "zb_h1", 2, 3),
                      in_few(split_case("cnn", 4, "1f1b", 2, 3, kToFeatures), 5)),
    name_of_case);

TEST(Division, SaysWhatWasChosen) {
  const Subject subject("cnn", DType::Float32);
  const auto model = subject.make();
  model->staged()->divide({.stages = {{0, 4}}, .held = {0}, .members = 2, .choose = true, .samples = 64});
  const std::string account = model->staged()->account();
  for (const char* line : {"weights: samples ", "weights: outputs", "weights: inputs "})
    EXPECT_THAT(account, HasSubstr(line));
}

TEST(Division, KeepsWhatTheStageHas) {
  const Subject subject("cnn", DType::Float32);
  const auto whole = subject.make();
  const auto model = subject.make();
  model->staged()->divide({.stages = {{0, 1}, {1, 2}, {3, 1}}, .held = {1}});
  const ModelSpec& spec = model->spec();
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters) names.push_back(parameter.name);
  EXPECT_THAT(names, ElementsAre("conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias"));
  EXPECT_THAT(spec.segments[0].parameters, ElementsAre(0, 1));
  EXPECT_GT(spec.segments[1].forward_flops, 0);
  ASSERT_EQ(model->staged()->pieces().size(), 1U);
  const Piece& piece = model->staged()->pieces()[0];
  EXPECT_EQ(piece.stage, 1);
  EXPECT_EQ(piece.segments, (Range{0, 2}));
  EXPECT_EQ(piece.inputs, 32 * 6 * 6);
  EXPECT_EQ(piece.outputs, 1024);
  EXPECT_EQ(whole->spec().segments[0].outputs, piece.inputs);
  // Values are those of the whole.
  const std::vector<double> all = whole->parameters(), own = model->parameters();
  const auto begin = all.begin() + whole->spec().parameters[0].count() + whole->spec().parameters[1].count();
  EXPECT_TRUE(std::equal(own.begin(), own.end(), begin));
}

TEST(Division, TiedWeightsAreOfBothStages) {
  const Subject subject("gpt", DType::Float32);
  const auto whole = subject.make();
  const auto model = subject.make();
  model->staged()->divide({.stages = {{0, 2}, {2, 1}, {3, 2}}, .held = {2}});
  const ParameterSpec& tied = model->spec().parameters.back();
  EXPECT_EQ(tied.name, "wte.weight");
  EXPECT_THAT(tied.stages, ElementsAre(0, 2));
  EXPECT_THAT(model->spec().parameters.front().stages, ElementsAre());
  EXPECT_EQ(model->spec().segments.size(), 2U);
  const std::vector<double> all = whole->parameters(), own = model->parameters();
  EXPECT_TRUE(std::equal(own.end() - tied.count(), own.end(), all.begin()));
}

TEST(Division, MembersShareAVocabularyAsFarAsTheyCan) {
  Subject subject("gpt", DType::Float32);
  Division division{.stages = {{0, 5}}, .held = {0}, .members = 4, .member = 1};
  const auto of_tokens = [&] {
    const auto model = subject.make();
    model->staged()->divide(division);
    EXPECT_EQ(model->spec().parameters.front().name, "wte.weight");
    return std::pair(model->spec().parameters.front(), model->staged()->pieces().back().inputs);
  };
  const auto [part, summaries] = of_tokens();
  EXPECT_EQ(part.split, 0);
  EXPECT_THAT(part.shape, ElementsAre(3, 8));
  EXPECT_EQ(summaries, 4 * 3 * kContext);  // not logits
  subject.shape.classes = 11;
  EXPECT_EQ(of_tokens().first.split, -1);
  division.splits = {{"wte", "vocabulary"}};
  try {
    of_tokens();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("wte has 11 tokens, which 4 members can't share equally"));
  }
}

TEST(Division, TiedWeightsOfMembers) {
  Subject subject("lstm", DType::Float64);
  subject.plan.options.set("tied", true);
  for (const Pipeline::Axes& axes : {Pipeline::Axes{3, 4}, {1, 2, 2}, {2, 3, 2}})
    expect_undivided(subject.maker(), subject.type, "1f1b", axes, subject.input(6), 1e-12);
}

TEST(Division, AbandonedStepsLeaveNothing) {
  const Subject subject("mlp", DType::Float64);
  Pipeline pipeline(subject.maker(), subject.type, "1f1b", {1, 2});
  const StepInput input = subject.input(6);
  pipeline.step(input);
  const std::vector<double> expected = pipeline.gradient("fc2.weight");
  pipeline.staged(0).begin_step(input);
  pipeline.staged(0).forward(0, {&input, 0, 2}, {}, {});
  pipeline.staged(0).abandon_step();
  pipeline.step(input);
  EXPECT_EQ(pipeline.gradient("fc2.weight"), expected);
}

TEST(Division, FrozenStagesPassGradientsOn) {
  const Subject subject("mlp", DType::Float64, {"fc2*"});
  expect_undivided(subject.maker(), subject.type, "zb_h1", {3, 4}, subject.input(6), 1e-12);
  const Subject front("mlp", DType::Float64, {"fc1*"});
  expect_undivided(front.maker(), front.type, "1f1b", {3, 4}, front.input(6), 1e-12);
}

TEST(Division, SaysWhatItCantDo) {
  const auto message = [](const Division& division, const char* model = "mlp") {
    try {
      Subject(model, DType::Float32).make()->staged()->divide(division);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message({.stages = {{0, 1}, {1, 1}, {2, 1}, {3, 0}}, .held = {0}}),
              HasSubstr("mlp has 3 segments, which 4 stages can't share"));
  const Division cnn{.stages = {{0, 4}}, .held = {0}, .members = 7};
  for (const char* layer : {"conv1", "conv2", "fc1", "fc2"})  // all of them together
    EXPECT_THAT(message(cnn, "cnn"), HasSubstr(std::string(layer) + " has "));
  Division other = cnn;
  other.members = 2;
  other.splits = {{"fc9", "none"}};
  EXPECT_THAT(message(other, "cnn"), HasSubstr("there is no layer fc9 to split by none"));
  other.splits = {{"fc1", "diagonal"}};
  EXPECT_THAT(message(other, "cnn"), HasSubstr("there is no split \"diagonal\""));
  other = {.stages = {{0, 11}}, .held = {0}, .members = 2, .splits = {{"bn1", "samples"}}};
  EXPECT_THAT(message(other, "resnet18"), HasSubstr("bn1 keeps statistics of its samples"));
  other.splits = {{"layer1.0", "samples"}};
  EXPECT_THAT(message(other, "resnet18"), HasSubstr("layer1.0 can't be split by samples"));
  EXPECT_THAT(
      message({.stages = {{0, 4}}, .held = {0}, .members = 2, .splits = {{"rnn.l0", "outputs"}}}, "lstm"),
      HasSubstr("rnn.l0 can't be split by outputs"));
  EXPECT_THAT(
      message({.stages = {{0, 7}}, .held = {0}, .members = 3}, "vit"),
      HasSubstr("encoder.layers.encoder_layer_0.self_attention has 4 heads, which 3 members can't share"));
  other = {.stages = {{0, 5}}, .held = {0}, .members = 2, .splits = {{"ln_f", "samples"}, {"wte", "none"}}};
  EXPECT_THAT(message(other, "gpt"),
              HasSubstr("ln_f, split by samples, and wte, split by none, read one weight"));
}

}  // namespace
}  // namespace taxon::model
