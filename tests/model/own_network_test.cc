// A program's own modules as models.
#include "model/torch/own_network.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn.h>

#include "base/error.h"
#include "model/bench.h"
#include "model/pipeline.h"
#include "model/torch/networks/layers.h"
#include "model/torch/own_forward.h"

namespace taxon::model {
namespace {

using ::testing::HasSubstr;
using namespace torch::nn;

const data::SampleShape kPictures{{3, 12, 12}, 5};
const data::SampleShape kRows{.input = {6}, .classes = 2, .target = {2}, .target_type = DType::Float32};

/// x + a layer of x: one piece.
struct AroundImpl : Module {
  explicit AroundImpl(std::int64_t features) : inner(register_module("inner", Linear(features, features))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + inner(x).tanh(); }
  Linear inner;
};
TORCH_MODULE(Around);

/// What batch norms of whatever class show: Debian's libtorch does not export all of its own.
struct NormImpl : Module {
  explicit NormImpl(std::int64_t channels)
      : weight(register_parameter("weight", torch::ones(channels))),
        bias(register_parameter("bias", torch::zeros(channels))),
        running_mean(register_buffer("running_mean", torch::zeros(channels))),
        running_var(register_buffer("running_var", torch::ones(channels))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::batch_norm(x, weight, bias, running_mean, running_var, is_training(), 0.1, 1e-5, false);
  }
  torch::Tensor weight, bias, running_mean, running_var;
};
TORCH_MODULE(Norm);

Sequential perceptron() {
  return Sequential(Flatten(), Linear(432, 32), Tanh(), Linear(32, 16), ReLU(), Linear(16, 5));
}

Sequential convolutions() {
  return Sequential(Conv2d(Conv2dOptions(3, 8, 3).padding(1)), ReLU(), MaxPool2d(2),
                    Conv2d(Conv2dOptions(8, 16, 3).bias(false)), Norm(16), ReLU(), AvgPool2d(2), Flatten(),
                    Linear(64, 24), ReLU(), Linear(24, 5));
}

/// Behind layers stands what takes all of their features; and layers that can't be split.
Sequential mixed() {
  return Sequential(Conv2d(Conv2dOptions(3, 6, 3).groups(3)), Sigmoid(), Conv2d(6, 8, 3), Softmax(1),
                    MaxPool2d(2), Flatten(), Linear(128, 16), Softmax(1), Around(16),
                    LayerNorm(LayerNormOptions({16})), Linear(16, 8), GLU(1), Linear(4, 5));
}

struct OwnModel {
  Sequential (*build)();
  DType type = DType::Float64;
  LossFunction loss = nullptr;
  data::SampleShape shape = kPictures;
  plan::ModelPlan plan = {};
  std::vector<Sequential> kept = {};  // models do not own them

  std::unique_ptr<Model> make() {
    torch::manual_seed(11);
    kept.push_back(build());
    return make_own_model({.plan = &plan, .shape = shape, .compute = type, .seed = 11}, *kept.back(), loss);
  }
};

struct OwnCase {
  const char* name;
  Sequential (*build)();
  std::string schedule;
  int stages, micros, members = 1;
  std::map<std::string, std::string> splits = {};
  bool choose = false;
  friend void PrintTo(const OwnCase& c, std::ostream* out) {
    *out << c.name << " in " << c.stages << " by " << c.schedule << " over " << c.members;
    for (const auto& [layer, row] : c.splits) *out << " " << layer << "=" << row;
  }
};

class DividedSequential : public ::testing::TestWithParam<OwnCase> {};

TEST_P(DividedSequential, IsTheUndividedModel) {
  const OwnCase& c = GetParam();
  OwnModel subject{c.build};
  const Samples samples = make_samples(kPictures, 6);
  expect_undivided([&] { return subject.make(); }, subject.type, c.schedule,
                   {c.stages, c.micros, c.members, c.splits, c.choose},
                   {.inputs = samples.inputs, .labels = samples.labels, .global_size = 9}, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Of, DividedSequential,
    ::testing::Values(
        OwnCase{"perceptron", perceptron, "1f1b", 3, 4}, OwnCase{"perceptron", perceptron, "zb_h1", 2, 5, 2},
        OwnCase{"perceptron", perceptron, "1f1b", 1, 2, 4},
        OwnCase{"convolutions", convolutions, "zb_h1", 5, 3},
        OwnCase{"convolutions", convolutions, "1f1b", 2, 2, 2},
        OwnCase{"convolutions", convolutions, "gpipe", 1, 1, 4},
        OwnCase{"convolutions", convolutions, "1f1b", 1, 2, 2, {{"0", "samples"}, {"3", "samples"}}},
        OwnCase{"convolutions", convolutions, "zb_h1", 3, 2, 2, {{"0", "none"}, {"3", "outputs"}}},
        OwnCase{"convolutions", convolutions, "1f1b", 1, 1, 2, {}, true},
        OwnCase{"mixed", mixed, "1f1b", 4, 3}, OwnCase{"mixed", mixed, "gpipe", 1, 1, 2},
        OwnCase{"mixed", mixed, "zb_h1", 3, 2, 2},
        OwnCase{"mixed", mixed, "gpipe", 1, 2, 2, {{"2", "outputs"}, {"6", "outputs"}, {"8", "samples"}}},
        OwnCase{"mixed", mixed, "1f1b", 2, 2, 2, {}, true}));

/// Its first module writes over what the batch holds.
Sequential in_place() {
  return Sequential(Functional([](torch::Tensor x) { return x.sub_(0.5).mul_(3); }), Flatten(),
                    Linear(432, 32), Tanh(), Linear(32, 5));
}

TEST(OwnSequential, MayWriteOverItsInputsWhereActivationsAreComputedAgain) {
  OwnModel subject{in_place, DType::Float32};
  Pipeline::Axes axes{2, 3};
  const auto make = [&] { return subject.make(); };
  Pipeline kept(make, subject.type, "gpipe", axes);
  axes.activations = plan::Activations::Recomputed;
  Pipeline again(make, subject.type, "gpipe", axes);
  const Samples first = make_samples(kPictures, 6), second = make_samples(kPictures, 6);
  kept.step({.inputs = first.inputs, .labels = first.labels, .global_size = 6});
  again.step({.inputs = second.inputs, .labels = second.labels, .global_size = 6});
  EXPECT_EQ(again.gradient("2.weight"), kept.gradient("2.weight"));
}

std::vector<std::string> split_tensors(Sequential (*build)(), Division division) {
  OwnModel subject{build};
  const auto model = subject.make();
  division.stages = {{0, model->spec().segments.size()}};
  division.held = {0};
  division.members = 2;
  model->staged()->divide(division);
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : model->spec().parameters)
    if (parameter.split >= 0) names.push_back(fmt::format("{}/{}", parameter.name, parameter.split));
  return names;
}

TEST(OwnSequential, SplitsWhatItKnowsByTheRuleOfBundledNetworks) {
  EXPECT_THAT(split_tensors(convolutions, {}), testing::ElementsAre("0.weight/0", "0.bias/0", "3.weight/1",
                                                                    "8.weight/0", "8.bias/0", "10.weight/1"));
  EXPECT_THAT(split_tensors(mixed, {}), testing::ElementsAre());  // nothing leads from layer to layer
}

struct DepthwiseImpl : Module {
  explicit DepthwiseImpl(std::int64_t channels)
      : weight(register_parameter("weight", torch::ones({channels, 1, 3, 3}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::conv2d(x, weight, {}, 1, 1, 1, /*groups=*/weight.size(0));
  }
  torch::Tensor weight;
};
TORCH_MODULE(Depthwise);

Sequential depthwise() {
  return Sequential(Conv2d(3, 8, 3), ReLU(), Depthwise(8), ReLU(), Conv2d(8, 4, 3), Flatten(),
                    Linear(4 * 64, 5));
}

TEST(OwnSequential, SplitsALayerOfItsOwnByARowOfItsOwn) {
  parallel::SplitRow channels = parallel::find_split("features");
  channels.name = "channels";
  channels.of_matrices = 0;
  const parallel::SplitRow splits[] = {channels};
  const parallel::LayerKind kinds[] = {
      {.name = "depthwise",
       .sentence = "a depthwise convolution",
       .has = [](const parallel::LayerFacts& layer) { return layer.type.ends_with("DepthwiseImpl"); },
       .splits = {"channels"}}};
  EXPECT_THAT(split_tensors(depthwise, {}),  // nothing is known of it
              testing::ElementsAre("4.weight/0", "4.bias/0", "6.weight/1"));
  Division own{.own_splits = splits, .own_kinds = kinds};
  const auto expected = testing::ElementsAre("0.weight/0", "0.bias/0", "2.weight/0", "4.weight/1");
  EXPECT_THAT(split_tensors(depthwise, own), expected);
  own.choose = true;
  own.samples = 64;
  EXPECT_THAT(split_tensors(depthwise, own), testing::Not(testing::IsEmpty()));
  own.choose = false;
  own.splits = {{"2", "outputs"}, {"4", "channels"}};
  try {
    split_tensors(depthwise, own);
    ADD_FAILURE() << "it was divided";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("2 can't be split by outputs: it is a depthwise convolution, of which "
                          "members have parts by channels"));
    EXPECT_THAT(error.what(),
                HasSubstr("4 can't be split by channels: it is a convolution without groups, of "
                          "which members have parts by outputs or inputs"));
  }
}

/// With the same names and weights, in double precision.
TEST(OwnSequential, IsTheBundledNetworkOfTheSameLayers) {
  const plan::ModelPlan plan{.name = "mlp"};
  const Samples samples = make_samples(kPictures, 7);
  for (const bool own_loss : {false, true}) {
    Bound bundled(make_model({.plan = &plan, .shape = kPictures, .compute = DType::Float64, .seed = 11}),
                  DType::Float64, DType::Float64);
    Sequential net({{"flatten", Flatten()},
                    {"fc1", Linear(432, 256)},
                    {"relu1", ReLU()},
                    {"fc2", Linear(256, 128)},
                    {"relu2", ReLU()},
                    {"fc3", Linear(128, 5)}});
    const LossFunction loss = [](const auto& outputs, const auto& targets) {
      return torch::nn::functional::cross_entropy(outputs, targets);
    };
    auto model = make_own_model({.plan = &plan, .shape = kPictures, .compute = DType::Float64, .seed = 1},
                                *net, own_loss ? loss : nullptr);
    model->set_parameters(bundled->parameters());
    Bound own(std::move(model), DType::Float64, DType::Float64);
    const StepOutput output = own.step(samples, 2, 9), expected = bundled.step(samples, 2, 9);
    EXPECT_NEAR(output.loss_sum, expected.loss_sum, 1e-12);
    EXPECT_EQ(output.counts, expected.counts);
    EXPECT_THAT(own.all_gradients(), testing::Pointwise(testing::DoubleNear(1e-14), bundled.all_gradients()));
    const StepOutput test = own->evaluate(samples.inputs, samples.labels);
    EXPECT_NEAR(test.loss_sum, bundled->evaluate(samples.inputs, samples.labels).loss_sum, 1e-12);
    EXPECT_EQ(test.counts, output.counts);
    EXPECT_EQ(std::string(own->spec().task.metrics[0].name), "accuracy");
  }
}

TEST(OwnSequential, FrozenLayersAndOtherPrecisions) {
  const Samples samples = make_samples(kPictures, 6);
  for (const DType type : {DType::Float32, DType::BFloat16}) {
    OwnModel subject{convolutions, type};
    subject.plan.frozen = {"0.*"};
    subject.plan.memory_format = plan::MemoryFormat::ChannelsLast;
    Bound model(subject.make(), type, DType::Float32);
    EXPECT_FALSE(model->spec().parameters[0].trainable);
    const double before = model.step(samples).loss_sum;
    EXPECT_NEAR(before / 6, std::log(5), 0.5);
    EXPECT_EQ(model.binding().parameters.size(), model->spec().parameters.size() - 2);
  }
}

/// A module that stands in it twice is one weight, read by both stages.
TEST(OwnSequential, AModuleMayStandInItTwice) {
  const auto build = [] {
    const Linear shared(16, 16);
    return Sequential(Flatten(), Linear(432, 16), Tanh(), shared, Tanh(), shared, Tanh(), Linear(16, 5));
  };
  OwnModel subject{build};
  const Samples samples = make_samples(kPictures, 6);
  const StepInput input{.inputs = samples.inputs, .labels = samples.labels, .global_size = 9};
  EXPECT_EQ(subject.make()->spec().parameters.size(), 6U);
  EXPECT_FALSE(subject.make()->spec().divisible);
  for (int stages : {2, 4})
    expect_undivided([&] { return subject.make(); }, subject.type, "1f1b", {stages, 3}, input, 1e-12);
}

struct PairImpl : Module {
  PairImpl()
      : first(register_module("first", Linear(6, 5))), second(register_module("second", Linear(3, 5))) {}
  std::tuple<torch::Tensor, int> forward(const torch::Tensor& x, torch::Tensor flags) {
    return {first(x) + second(flags.to(x.scalar_type())), 7};
  }
  Linear first, second;
};
TORCH_MODULE(Pair);

/// With the labels, which it makes the loss of.
struct JudgeImpl : PairImpl {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x, const torch::Tensor& flags,
                                                   const torch::Tensor& labels) {
    const torch::Tensor logits = std::get<0>(PairImpl::forward(x, flags));
    return {torch::nn::functional::cross_entropy(logits, labels), logits};
  }
};

TEST(OwnModule, TakesAsManyTensorsAsASampleHas) {
  const data::SampleShape shape{.input = {6}, .classes = 5, .more = {{{3}, DType::UInt8}}};
  const Samples samples = make_samples({{6}, 5}, 8);
  std::vector<std::uint8_t> flags;
  for (int i = 0; i < 24; ++i) flags.push_back(i % 5 < 2);
  const data::Inputs inputs(std::vector<data::Values>{samples.inputs, flags});
  const plan::ModelPlan plan;
  const ModelContext context{.plan = &plan, .shape = shape, .compute = DType::Float64};
  Pair pair;
  JudgeImpl judge;
  Bound plain(make_own_model(context, *pair, own_forward(*pair), plan::ModelReturns::Logits, nullptr),
              DType::Float64, DType::Float64);
  auto with_loss = make_own_model(context, judge, own_forward(judge), plan::ModelReturns::Loss, nullptr);
  with_loss->set_parameters(plain->parameters());
  Bound own(std::move(with_loss), DType::Float64, DType::Float64);
  Recorder marks;
  const StepInput input{.inputs = inputs, .labels = samples.labels, .global_size = 9, .micro_batches = 3};
  const StepOutput output = own->forward_backward(input, 0, marks),
                   expected = plain->forward_backward(input, 0, marks);
  EXPECT_NEAR(output.loss_sum, expected.loss_sum, 1e-12);
  EXPECT_EQ(output.counts, expected.counts);
  EXPECT_THAT(own.all_gradients(), testing::Pointwise(testing::DoubleNear(1e-14), plain.all_gradients()));
}

TEST(OwnModule, LayersThatWroteGradientsOutliveTheModel) {
  const plan::ModelPlan plan;
  Sequential net(DirectLinear(6, 2));
  {
    auto model =
        make_own_model({.plan = &plan, .shape = kRows, .compute = DType::Float64}, *net,
                       [](const torch::Tensor& y, const torch::Tensor& x) { return (y - x).abs().mean(); });
    EXPECT_NE(net[0]->as<DirectLinear>()->weight_target, nullptr);
  }
  EXPECT_EQ(net[0]->as<DirectLinear>()->weight_target, nullptr);
}

TEST(OwnModule, ALossOfOnesOwnOnRealTargetsKeepsTheScores) {
  const LossFunction huber = [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    EXPECT_EQ(outputs.sizes(), targets.sizes());
    EXPECT_EQ(targets.scalar_type(), outputs.scalar_type());
    return torch::nn::functional::smooth_l1_loss(outputs, targets);
  };
  const plan::ModelPlan plan;
  Sequential net(Linear(6, 2));
  const Samples samples = make_samples({{6}, 2}, 8);
  const std::vector<float> targets(samples.inputs.begin(), samples.inputs.begin() + 16);
  Bound model(make_own_model({.plan = &plan, .shape = kRows, .compute = DType::Float64}, *net, huber),
              DType::Float64, DType::Float64);
  Recorder marks;
  const StepOutput output = model->forward_backward(
      {.inputs = samples.inputs, .labels = targets, .global_size = 8, .micro_batches = 3, .targets = 2}, 0,
      marks);
  const auto x = torch::tensor(samples.inputs).view({8, 6}).to(torch::kDouble);
  const auto y = torch::tensor(targets).view({8, 2}).to(torch::kDouble);
  const auto weight = net[0]->as<Linear>()->weight.detach().clone().requires_grad_(true);
  const auto given = torch::linear(x, weight, net[0]->as<Linear>()->bias.detach());
  const auto loss = torch::nn::functional::smooth_l1_loss(given, y);
  loss.backward();
  EXPECT_NEAR(output.loss_sum, 16 * loss.item<double>(), 1e-12);
  EXPECT_NEAR(output.counts[0], (given - y).square().sum().item<double>(), 1e-12);
  const auto gradient = weight.grad().contiguous();
  EXPECT_THAT(
      model.gradient("0.weight"),
      testing::Pointwise(testing::DoubleNear(1e-14),
                         std::vector<double>(gradient.data_ptr<double>(), gradient.data_ptr<double>() + 12)));
  EXPECT_EQ(std::string(model->spec().task.metrics[0].name), "r2");
}

/// Of outputs that are no logits, for data that fit no task.
TEST(OwnModule, ALossOfOnesOwnNeedsNoTask) {
  const data::SampleShape shape{.input = {6}, .classes = 4, .target = {3}};
  const LossFunction loss = [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    EXPECT_EQ(targets.sizes(), torch::IntArrayRef({outputs.size(0), 3}));
    return (outputs.sum(1) - targets.sum(1)).square().mean();
  };
  const plan::ModelPlan plan;
  Sequential net(Linear(6, 9));
  const auto model = make_own_model({.plan = &plan, .shape = shape, .compute = DType::Float32}, *net, loss);
  EXPECT_EQ(model->spec().task.counts, 0U);
  EXPECT_TRUE(model->spec().task.metrics.empty());
  const std::vector<float> inputs(12, 1);
  const std::vector<std::int64_t> labels = {0, 1, 2, 3, 2, 1};
  EXPECT_GT(model->evaluate(inputs, labels).loss_sum, 0);
}

/// A parameter that no pass uses has a gradient of zero.
struct IdleImpl : Module {
  IdleImpl()
      : used(register_module("used", Linear(6, 2))), idle(register_parameter("idle", torch::ones({3}))) {}
  torch::Tensor forward(const torch::Tensor& x) { return used(x); }
  Linear used;
  torch::Tensor idle;
};

TEST(OwnModule, ParametersThatNoPassUsesHaveNoGradient) {
  const plan::ModelPlan plan;
  IdleImpl net;
  Bound model(make_own_model({.plan = &plan, .shape = {{6}, 2}}, net, own_forward(net),
                             plan::ModelReturns::Logits, nullptr));
  model.fill_gradients(7);
  model.step(make_samples({{6}, 2}, 4));
  EXPECT_THAT(model.gradient("idle"), testing::Each(0.0));
}

struct ConstantImpl : IdleImpl {
  torch::Tensor forward(const torch::Tensor& x) { return used(x).detach(); }
};

/// The Error that trying or training it ends in.
std::string failure(const std::function<std::unique_ptr<Model>(const ModelContext&)>& make,
                    const data::SampleShape& shape = {{6}, 2}) {
  const plan::ModelPlan plan;
  try {
    auto model = make({.plan = &plan, .shape = shape, .compute = DType::Float32});
    const Samples samples = make_samples(shape, 4);
    model->gradient_order(samples.inputs, samples.labels);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string failure(Sequential net, const LossFunction& loss = nullptr) {
  return failure([&](const ModelContext& context) { return make_own_model(context, *net, loss); });
}
template <class Net>
std::string failure_of(Net net, const data::SampleShape& shape = {{6}, 2}) {
  return failure(
      [&](const ModelContext& context) {
        return make_own_model(context, net, own_forward(net), plan::ModelReturns::Logits, nullptr);
      },
      shape);
}

TEST(OwnModule, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(failure(Sequential(Linear(6, 3))),
              HasSubstr("must map a batch of 2 to logits of shape [2, 2], but gave [2, 3]"));
  EXPECT_THAT(failure(Sequential(Linear(6, 4), ReLU(), Linear(5, 2))),
              HasSubstr("does not take a batch of inputs float32 [6] and one int64 label in Float: layer 2 "
                        "(torch::nn::LinearImpl): "));
  EXPECT_THAT(failure(Sequential(Linear(6, 4), LSTM(4, 2))), HasSubstr("layer 1 (torch::nn::LSTMImpl): "));
  EXPECT_THAT(failure(Sequential(Flatten())), HasSubstr("has no parameter to train"));
  EXPECT_THAT(failure_of(PairImpl()), HasSubstr("does not take 1 tensor, as many as a batch"));
  EXPECT_THAT(failure_of(IdleImpl(), {.input = {6}, .classes = 2, .more = {{{3}, DType::Float32}}}),
              HasSubstr("does not take 2 tensors"));
  EXPECT_THAT(
      failure([&](const ModelContext& context) { return make_own_model(context, *perceptron(), nullptr); },
              {.input = {6}, .classes = 2, .more = {{{3}, DType::Float32}}}),
      HasSubstr("torch::nn::Sequential takes one tensor, and samples of the data set have inputs"));
  EXPECT_THAT(failure_of(ConstantImpl()), HasSubstr("ConstantImpl"));
}

TEST(OwnModule, SaysWhatIsWrongWithItsLoss) {
  const auto of = [](LossFunction loss) { return failure(Sequential(Linear(6, 2)), loss); };
  EXPECT_THAT(
      of([](const auto& outputs, const auto&) { return outputs.square(); }),
      HasSubstr("the loss function of model torch::nn::SequentialImpl must give a loss, one number, but gave "
                "[2, 2] of type Float"));
  EXPECT_THAT(of([](const auto&, const auto& targets) { return targets.sum(); }), HasSubstr("of type Long"));
  EXPECT_THAT(of([](const auto&, const auto&) { return torch::Tensor(); }), HasSubstr("but gave nothing"));
  EXPECT_THAT(of([](const auto& outputs, const auto&) { return outputs.detach().mean(); }),
              HasSubstr("depends on a parameter that is trained, and this one depends on none"));
  EXPECT_THAT(of([](const auto& outputs, const auto& targets) {
                return torch::mse_loss(outputs, targets.view({7}));
              }),
              HasSubstr("fails on outputs [2, 2] and targets [2] of type Long: "));
}

TEST(OwnModule, SaysWhyItCantBeDivided) {
  const auto refusal = [](Sequential (*build)(), Division division) {
    try {
      split_tensors(build, std::move(division));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(refusal(mixed, {.splits = {{"8", "outputs"}}}), HasSubstr("8 can't be split by outputs"));
  EXPECT_THAT(refusal(mixed, {.splits = {{"0", "inputs"}}}), HasSubstr("0 can't be split by inputs"));
  EXPECT_THAT(refusal(convolutions, {.splits = {{"4", "samples"}}}),
              HasSubstr("4 keeps statistics of its samples"));
  EXPECT_THAT(refusal([] { return Sequential(Flatten(), Linear(432, 8), Dropout(), Linear(8, 5)); }, {}),
              HasSubstr("leave dropout out"));
  const auto twice = [] {
    const Linear shared(16, 16);
    return Sequential(Flatten(), Linear(432, 16), shared, Tanh(), shared, Linear(16, 5));
  };
  EXPECT_THAT(refusal(twice, {}),
              HasSubstr("4 can't be split by outputs: it has weights of an earlier layer"));
  PairImpl pair;
  const plan::ModelPlan plan;
  const auto whole =
      make_own_model({.plan = &plan, .shape = {.input = {6}, .classes = 5, .more = {{{3}, DType::UInt8}}}},
                     pair, own_forward(pair), plan::ModelReturns::Logits, nullptr);
  try {
    whole->staged()->divide({.stages = {{0, 1}}, .held = {0}, .members = 2});
    ADD_FAILURE() << "it was divided";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("torch::nn::Sequential"));
  }
}

}  // namespace
}  // namespace taxon::model
