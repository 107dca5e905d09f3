// Programs in stages, against the same programs undivided.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "model/pipeline.h"
#include "model/torch/exported/forged.h"
#include "model/torch/exported/interpreter.h"
#include "model/torch/exported/networks.h"
#include "model/torch/exported/program.h"
#include "model/torch/exported/stage_names.h"
#include "plan/model_file.h"

namespace taxon::model::exported {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

/// Of networks that are cut, their stages; of others what is said of them.
const std::map<std::string, Names> kStages = {
    {"mlp", {"1", "3"}},
    {"cnn", {"0", "3", "7"}},
    {"resnet", {"0", "1", "3", "4", "7"}},
    {"encoder",
     {"encoder.layers.0.self_attn", "encoder.layers.0.norm1", "encoder.layers.0.linear1",
      "encoder.layers.0.norm2", "head"}},
    {"gpt", {"tokens", "positions", "block.attention", "block.mlp", "norm"}},
    {"vit", {"patches", "token", "positions", "block.attention", "block.mlp", "norm", "head"}},
    {"lstm", {"layers", "head"}},
    {"gru", {"layers", "head"}},
    {"tied", {"first", "second", "head"}},
    {"dropout", {"body.0", "body.3", "norm", "attention.in_proj_weight", "attention.out_proj", "head"}},
    {"sizes", {"first", "head"}},
    {"double", {"layers", "head"}},
};
const std::map<std::string, std::string> kWhole = {
    {"statistics", "nowhere a single tensor of the batch leads from layers to others"},
    {"two_inputs", "any of its layers may read any of its inputs"},
    {"masked", "any of its layers may read any of its inputs"},
    {"loss", "it reads labels beside what its layers give"},
};

/// A network with samples for it.
struct Subject {
  explicit Subject(const std::string& network, DType compute = DType::Float64) : type(compute) {
    plan.name = path_of(network + ".pt2");
    const bool gives_loss = network == "loss";
    if (gives_loss) plan.options = {{"returns", "loss"}};
    for (const Reference& reference : references())
      if (reference.name == (gives_loss ? "tied" : network)) take(reference.inputs);
  }
  std::unique_ptr<Model> make() const {
    return make_model({.plan = &plan, .shape = shape, .compute = type, .seed = 11});
  }
  MakeModel maker() const {
    return [this] { return make(); };
  }
  StepInput input(std::size_t count = 6) const {
    const auto targets = static_cast<std::size_t>(shape.targets());
    StepInput input{.labels = std::span(samples.labels).first(count * targets),
                    .global_size = static_cast<std::int64_t>(count) + 3,
                    .targets = shape.targets()};
    if (words.empty())
      input.inputs = samples.inputs;
    else
      input.inputs = words;
    return input;
  }

  DType type;
  data::SampleShape shape{.input = {}, .classes = 5};
  plan::ModelPlan plan;
  Samples samples;
  std::vector<std::int64_t> words;

 private:
  void take(const std::vector<Reference::Input>& inputs) {
    shape.input.assign(inputs[0].shape.begin(), inputs[0].shape.end());
    for (std::size_t i = 1; i < inputs.size(); ++i)
      shape.more.push_back({{inputs[i].shape.begin(), inputs[i].shape.end()},
                            inputs[i].below < 0 ? DType::UInt8 : DType::Float32});
    if (inputs[0].below == 0) {
      samples = make_samples(shape, 6);
      return;
    }
    shape.input_type = DType::Int64;
    if (!shape.more.empty()) return;
    shape.target = shape.input;
    shape.classes = inputs[0].below;
    for (std::int64_t i = 0; i < 6 * shape.targets(); ++i) {
      words.push_back((3 * i + i * i) % shape.classes);
      samples.labels.push_back((3 * (i + 1) + (i + 1) * (i + 1)) % shape.classes);
    }
  }
};

class Stages : public ::testing::TestWithParam<std::string> {};

TEST_P(Stages, AreNamedByTheirModules) {
  const auto model = Subject(GetParam()).make();
  Names names;
  std::size_t parameters = 0;
  for (const Segment& segment : model->spec().segments) {
    names.push_back(segment.name);
    EXPECT_FALSE(segment.parameters.empty()) << segment.name;
    parameters += segment.parameters.size();
  }
  EXPECT_EQ(names, kStages.at(GetParam()));
  EXPECT_EQ(parameters, model->spec().parameters.size());
  for (std::size_t s = 0; s + 1 < names.size(); ++s) EXPECT_GT(model->spec().segments[s].outputs, 0) << s;
}

/// Outputs, gradients and buffers, in training and in evaluation.
TEST_P(Stages, GiveTheBitsOfTheWhole) {
  const auto passed = [](bool in_parts) {
    Program program = read_program(path_of(GetParam() + ".pt2"));
    const Interpreter interpreter(std::move(program.graph));
    at::ScalarType type = at::kFloat;
    for (const NamedTensor& item : program.parameters) type = item.tensor.scalar_type();
    const Subject subject(GetParam());
    std::vector<std::int64_t> sizes = {6};
    sizes.insert(sizes.end(), subject.shape.input.begin(), subject.shape.input.end());
    const at::Tensor count = at::arange(c10::multiply_integers(sizes), at::kLong).reshape(sizes);
    const bool has_words = !subject.words.empty();
    const at::Tensor input = has_words ? count.remainder(subject.shape.classes) : count.to(type).sin();
    std::vector<Interpreter::Part> parts;
    const auto stages = interpreter.cut(program.stored, type);
    EXPECT_EQ(stages.size(), kStages.at(GetParam()).size());
    for (const Interpreter::Stage& stage : stages)
      if (stage.has_rest())
        parts.insert(parts.end(), {stage.layer, stage.rest});
      else
        parts.push_back(stage.all);
    std::vector<at::Tensor> results;
    at::manual_seed(5);
    for (const Mode mode : {Mode::Train, Mode::Train, Mode::Evaluate}) {
      std::vector<at::Tensor> passing = {input};
      if (!in_parts) passing = interpreter.run(program.stored, passing, mode);
      for (std::size_t p = 0; in_parts && p < parts.size(); ++p)
        passing = interpreter.run(parts[p], program.stored, passing, mode);
      results.push_back(passing[0].detach());
      if (mode == Mode::Train) passing[0].square().sum().backward();
    }
    for (const NamedTensor& item : program.parameters) results.push_back(item.tensor.grad());
    for (const NamedTensor& item : program.buffers) results.push_back(item.tensor);
    return results;
  };
  const auto whole = passed(false), parts = passed(true);
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(whole[i].equal(parts[i])) << i;
}

std::vector<std::string> names_of_cut() {
  std::vector<std::string> names;
  for (const auto& [name, stages] : kStages) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Networks, Stages, ::testing::ValuesIn(names_of_cut()),
                         [](const auto& info) { return info.param; });

struct Case {
  std::string network, schedule;
  Pipeline::Axes axes;
  DType type = DType::Float64;
  double tolerance = 1e-12;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.network << " by " << c.schedule; }
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string name = fmt::format("{}_{}_{}_stages_{}_micros_{}_members_{}", c.network, c.schedule,
                                 c.axes.stages, c.axes.micros, c.axes.members, to_string(c.type));
  if (c.axes.choose) name += "_auto";
  for (const auto& [layer, row] : c.axes.splits) name += fmt::format("_{}_{}", layer, row);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class Divided : public ::testing::TestWithParam<Case> {};

TEST_P(Divided, IsTheUndividedProgram) {
  const Case& c = GetParam();
  const Subject subject(c.network, c.type);
  expect_undivided(subject.maker(), c.type, c.schedule, c.axes, subject.input(), c.tolerance);
}

INSTANTIATE_TEST_SUITE_P(Networks, Divided,
                         ::testing::Values(Case{"mlp", "1f1b", {2, 3}}, Case{"mlp", "zb_h1", {2, 4}},
                                           Case{"cnn", "gpipe", {3, 2}}, Case{"cnn", "zb_h1", {2, 3}},
                                           Case{"resnet", "1f1b", {5, 2}}, Case{"resnet", "zb_h1", {3, 3}},
                                           Case{"encoder", "1f1b", {5, 4}}, Case{"encoder", "zb_h1", {2, 3}},
                                           Case{"gpt", "1f1b", {3, 4}}, Case{"gpt", "zb_h1", {4, 6}},
                                           Case{"gpt", "interleaved", {4, 4}}, Case{"vit", "1f1b", {7, 3}},
                                           Case{"vit", "zb_h1", {3, 6}}, Case{"lstm", "1f1b", {2, 3}},
                                           Case{"gru", "zb_h1", {2, 4}}, Case{"tied", "1f1b", {3, 4}},
                                           Case{"tied", "zb_h1", {2, 3}}, Case{"sizes", "1f1b", {2, 1}},
                                           Case{"double", "zb_h1", {2, 3}},
                                           Case{"cnn", "1f1b", {3, 2}, DType::Float32, 1e-6},
                                           Case{"gpt", "1f1b", {3, 4}, DType::Float32, 1e-5}),
                         name_of_case);

using Splits = std::map<std::string, std::string>;

Pipeline::Axes members(int count, int stages = 1, int micros = 2, Splits splits = {}) {
  return {stages, micros, count, std::move(splits)};
}
Pipeline::Axes chosen(int count, int stages = 1, int micros = 2, Splits splits = {}) {
  return {stages, micros, count, std::move(splits), /*choose=*/true};
}

INSTANTIATE_TEST_SUITE_P(
    Members, Divided,
    ::testing::Values(Case{"mlp", "1f1b", members(2)}, Case{"mlp", "1f1b", members(4)},
                      Case{"mlp", "zb_h1", members(2, 2, 3)}, Case{"cnn", "1f1b", members(2)},
                      Case{"cnn", "1f1b", members(4)}, Case{"cnn", "zb_h1", members(2, 3, 3)},
                      Case{"resnet", "gpipe", members(2, 1, 1)}, Case{"resnet", "zb_h1", members(2, 3, 3)},
                      Case{"encoder", "1f1b", members(2)}, Case{"encoder", "zb_h1", members(2, 3, 3)},
                      Case{"gpt", "1f1b", members(2)}, Case{"gpt", "zb_h1", members(4, 3, 4)},
                      Case{"vit", "1f1b", members(2)}, Case{"vit", "zb_h1", members(2, 4, 3)},
                      Case{"lstm", "1f1b", members(2)}, Case{"gru", "1f1b", members(2, 2, 3)},
                      Case{"tied", "1f1b", members(2)}, Case{"sizes", "1f1b", members(2, 1, 1)},
                      Case{"double", "1f1b", members(2)},
                      Case{"cnn", "1f1b", members(2), DType::Float32, 1e-5}),
    name_of_case);

// What no program chooses, and what sends least.
INSTANTIATE_TEST_SUITE_P(
    Splits, Divided,
    ::testing::Values(
        Case{"mlp", "1f1b", members(2, 1, 2, {{"1", "none"}, {"3", "inputs"}})},
        Case{"mlp", "zb_h1", members(2, 2, 3, {{"1", "samples"}, {"3", "samples"}})},
        Case{"cnn", "1f1b", members(2, 1, 2, {{"0", "samples"}, {"3", "outputs"}, {"7", "inputs"}})},
        Case{"cnn", "zb_h1", members(4, 3, 3, {{"3", "inputs"}, {"7", "samples"}})},
        Case{"resnet", "zb_h1", members(2, 3, 2, {{"0", "outputs"}, {"1", "features"}, {"7", "inputs"}})},
        Case{"vit", "1f1b", members(2, 1, 2, {{"block.attention", "none"}, {"head", "inputs"}})},
        Case{"mlp", "1f1b", chosen(2)}, Case{"cnn", "1f1b", chosen(2)}, Case{"cnn", "zb_h1", chosen(4, 3, 3)},
        Case{"cnn", "1f1b", chosen(2, 1, 1, {{"3", "outputs"}})}, Case{"resnet", "gpipe", chosen(2, 1, 1)},
        Case{"encoder", "1f1b", chosen(2)}, Case{"gpt", "1f1b", chosen(2)}, Case{"vit", "1f1b", chosen(2)},
        Case{"lstm", "1f1b", chosen(2)}, Case{"tied", "1f1b", chosen(2)}),
    name_of_case);

class Recomputed : public ::testing::TestWithParam<Case> {};

TEST_P(Recomputed, GiveTheBitsOfKeptOnes) {
  const Case& c = GetParam();
  const Subject subject(c.network, c.type);
  expect_same_bits_of_recomputed(subject.maker(), c.type, c.schedule, c.axes, subject.input());
}

INSTANTIATE_TEST_SUITE_P(Networks, Recomputed,
                         ::testing::Values(Case{"resnet", "zb_h1", {3, 3}}, Case{"gpt", "1f1b", {3, 4}},
                                           Case{"cnn", "1f1b", members(2, 3, 3)},
                                           Case{"dropout", "1f1b", {5, 2}}, Case{"dropout", "zb_h1", {3, 3}}),
                         name_of_case);

std::string refusal(const std::string& network, const Division& division) {
  try {
    Subject(network, DType::Float32).make()->staged()->divide(division);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ExportedStages, WhatCantBeCutSaysWhy) {
  for (const auto& [network, why] : kWhole)
    EXPECT_THAT(
        refusal(network, {.stages = {{0, 1}}, .held = {0}}),
        HasSubstr(fmt::format("model {} can't be divided: it is one segment, since {}", network, why)));
  EXPECT_THAT(refusal("mlp", {.stages = {{0, 1}, {1, 1}, {2, 0}}, .held = {0}}),
              HasSubstr("mlp has 2 segments, which 3 stages can't share"));
}

TEST(ExportedStages, KeepTheirOwnParametersAndBuffers) {
  const Subject subject("resnet");
  const auto model = subject.make();
  model->staged()->divide({.stages = {{0, 1}, {1, 2}, {3, 2}}, .held = {1}});
  Names parameters, buffers;
  for (const ParameterSpec& item : model->spec().parameters) parameters.push_back(item.name);
  for (const BufferSpec& item : model->spec().buffers) buffers.push_back(item.name);
  EXPECT_THAT(parameters, ElementsAre("1.weight", "1.bias", "3.conv1.weight", "3.bn1.weight", "3.bn1.bias",
                                      "3.conv2.weight", "3.bn2.weight", "3.bn2.bias"));
  EXPECT_THAT(buffers, ElementsAre("1.running_mean", "1.running_var", "1.num_batches_tracked",
                                   "3.bn1.running_mean", "3.bn1.running_var", "3.bn1.num_batches_tracked",
                                   "3.bn2.running_mean", "3.bn2.running_var", "3.bn2.num_batches_tracked"));
}

TEST(ExportedStages, TiedWeightsAreOfBothStages) {
  const auto model = Subject("gpt").make();
  EXPECT_FALSE(model->spec().divisible);
  model->staged()->divide({.stages = {{0, 3}, {3, 2}}, .held = {1}});
  const ParameterSpec& tied = model->spec().parameters.back();
  EXPECT_EQ(tied.name, "tokens.weight");
  EXPECT_THAT(tied.stages, ElementsAre(0, 1));
}

/// The second layer reads the inputs, so that two tensors would have to go from the first one to it.
TEST(ExportedStages, NothingIsCutWhereTwoTensorsCross) {
  Forged forged("tied");
  forged.graph("{\"as_tensor\": {\"name\": \"tanh\"}}, \"kind\"",
               "{\"as_tensor\": {\"name\": \"x\"}}, \"kind\"");
  Subject subject("tied");
  subject.plan.name = forged.save();
  const auto model = subject.make();
  Names names;
  for (const Segment& segment : model->spec().segments) names.push_back(segment.name);
  EXPECT_THAT(names, ElementsAre("first", "head"));
  EXPECT_THAT(model->spec().segments[0].parameters, ElementsAre(0, 1, 2));
}

Division of_members(int members, std::map<std::string, std::string> splits, std::size_t stages) {
  return {.stages = {{0, stages}}, .held = {0}, .members = members, .splits = std::move(splits)};
}

TEST(ExportedSplits, WhatCantBeSplitSaysWhy) {
  EXPECT_THAT(refusal("cnn", of_members(2, {{"7", "outputs"}}, 3)),
              HasSubstr("model cnn can't be divided over 2 members: 7 can't be split by outputs: it has 5 "
                        "outputs, which 2 members can't share equally"));
  EXPECT_THAT(refusal("resnet", of_members(2, {{"1", "samples"}}, 5)),
              HasSubstr("1 can't be split by samples: it keeps statistics of its samples"));
  EXPECT_THAT(
      refusal("resnet", of_members(2, {{"3", "outputs"}}, 5)),
      HasSubstr("3 can't be split by outputs: what members would make of their parts is not the whole"));
  EXPECT_THAT(refusal("vit", of_members(2, {{"block.mlp", "inputs"}}, 7)),
              HasSubstr("block.mlp can't be split by inputs: "));
  EXPECT_THAT(refusal("gpt", of_members(2, {{"tokens", "outputs"}}, 5)),
              HasSubstr("tokens can't be split by outputs: tokens.weight is not read by it alone"));
  EXPECT_THAT(
      refusal("sizes", of_members(2, {{"first", "samples"}}, 2)),
      HasSubstr("first can't be split by samples: what members would make of their parts is not the whole"));
  EXPECT_THAT(refusal("mlp", of_members(2, {{"5", "none"}}, 2)),
              HasSubstr("there is no layer 5 to split by none; there are 1, 3"));
  EXPECT_THAT(refusal("dropout", of_members(2, {}, 6)),
              HasSubstr("members would drop different activations; export it without operator "
                        "aten.dropout.default at node dropout"));
}

/// The extents of a view are those of all features: members' features would become samples.
TEST(ExportedSplits, FeaturesThatAViewNamesAreNotSplit) {
  Forged forged("cnn");
  forged.graph("torch.ops.aten.flatten.using_ints", "torch.ops.aten.view.default")
      .graph("{\"name\": \"start_dim\", \"arg\": {\"as_int\": 1}",
             "{\"name\": \"size\", \"arg\": {\"as_ints\": [-1, 8]}");
  Subject subject("cnn");
  subject.plan.name = forged.save();
  try {
    subject.make()->staged()->divide(of_members(2, {{"3", "outputs"}}, 3));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("3 can't be split by outputs: what members would make of their parts"));
  }
  expect_undivided(subject.maker(), subject.type, "1f1b", members(2), subject.input(), 1e-12);
}

TEST(ExportedSplits, AccountNamesWhatStaysWhole) {
  const auto account = [](const std::string& network, const Division& division) {
    const auto model = Subject(network).make();
    model->staged()->divide(division);
    return model->staged()->account();
  };
  EXPECT_EQ(account("mlp", of_members(2, {}, 2)), "");
  EXPECT_EQ(account("cnn", of_members(2, {}, 3)),
            "whole on every member: 7 (its neighbours leave it no parts)");
  EXPECT_THAT(account("gpt", of_members(2, {}, 5)),
              HasSubstr("whole on every member: tokens (tokens.weight is not read by it alone), norm ("));
  EXPECT_THAT(account("resnet", of_members(2, {}, 5)), HasSubstr("3 (it keeps statistics of its samples"));
  Division chosen = of_members(2, {}, 3);
  chosen.choose = true;
  chosen.samples = 64;
  EXPECT_THAT(account("cnn", chosen), HasSubstr("weights: samples"));
}

NamedTensor named(const char* name, std::int64_t elements) { return {name, at::empty({elements})}; }

TEST(StageNames, AreOfTheInnermostModuleOfAllOrItsLargestPart) {
  EXPECT_THAT(stage_names({{named("layer1.0.conv1.weight", 4), named("layer1.0.bn1.weight", 2)},
                           {named("fc.weight", 4), named("fc.bias", 1)}}),
              ElementsAre("layer1.0", "fc"));
  EXPECT_THAT(stage_names({{named("h.0.ln.weight", 1), named("h.0.attn.qkv.weight", 9)},
                           {named("h.0.ln2.weight", 1), named("h.0.mlp.0.weight", 9)},
                           {named("h.1.mlp.0.weight", 9), named("h.1.mlp.2.weight", 9)}}),
              ElementsAre("h.0.attn", "h.0.mlp", "h.1.mlp"));
  EXPECT_THAT(stage_names({{named("scale", 1), named("wte.weight", 9)}, {named("shift", 1)}}),
              ElementsAre("wte", "shift"));
  EXPECT_THAT(
      stage_names({{named("rnn.w0", 9), named("rnn.b0", 3)}, {named("rnn.w1", 9)}, {named("rnn.b1", 9)}}),
      ElementsAre("rnn.w0", "rnn.w1", "rnn.b1"));
}

}  // namespace
}  // namespace taxon::model::exported
