// A module whose passes its owner computes: what leaves while a backward pass runs.
#include "model/torch/module_model.h"

#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>

#include "base/error.h"
#include "model/bench.h"
#include "model/torch/networks/layers.h"

namespace taxon::model {
namespace {

/// Computes a step at once, by a function.
class OwnerAtOnce final : public StepOwner {
 public:
  void advance(const StepInput&, ReadableWeights) override {}
  StepOutput compute(const StepInput& input) override {
    step(input);
    return {};
  }
  void recall() override {}
  void need(ReadableWeights weights) override { needed.push_back(weights); }
  std::function<void(const StepInput&)> step;
  std::vector<ReadableWeights> needed = {};
};

/// One layer, whose weight's gradient is computed in two blocks of rows; and how a loss is made of its
/// outputs.
class Rows : public testing::Test {
 protected:
  static constexpr std::int64_t kInputs = 8192, kOutputs = 128;  // 64 rows are 2 MiB
  using Loss = std::function<at::Tensor(const at::Tensor& outputs)>;

  Rows() {
    auto made = std::make_unique<ModuleModel>(*layer_, DType::Float32, plan::ModelPlan{}, owner_);
    model_ = made.get();
    bound_ = std::make_unique<Bound>(std::move(made));
    bound_->split_buckets(2);
    bound_->fill("weight", 1);
  }

  /// How many values of the weight's second half were `end` when its first half was said to be complete.
  std::int64_t ended_behind_the_first_half(const Loss& loss, float end) {
    constexpr std::int64_t samples = 2;
    owner_.step = [&](const StepInput& input) {
      const at::Tensor x = inputs_(samples);
      loss(model_->weighted(input, {forward_(x)}).front()).backward();
      model_->end_passes();
    };
    bound_->fill_gradients(77);
    Recorder recorder(&bound_->gradients);
    const Samples share = make_samples({{1}, 2}, samples);
    (*bound_)->forward_backward({share.inputs, share.labels, samples, 1}, 0, recorder);
    const auto first = std::find(recorder.order.begin(), recorder.order.end(), 0);
    if (first == recorder.order.end()) throw Error(ErrorKind::Internal, "the first half was never complete");
    const auto& snapshot = recorder.snapshots[static_cast<std::size_t>(first - recorder.order.begin())];
    const auto* values = reinterpret_cast<const float*>(snapshot.data());
    return std::count(values + kInputs * kOutputs / 2, values + kInputs * kOutputs, end);
  }

  std::function<at::Tensor(std::int64_t)> inputs_ = [](std::int64_t samples) {
    return torch::ones({samples, kInputs});
  };
  std::function<at::Tensor(const at::Tensor&)> forward_ = [this](const at::Tensor& x) {
    return layer_->forward(x);
  };
  DirectLinear layer_{kInputs, kOutputs};
  OwnerAtOnce owner_;
  ModuleModel* model_;
  std::unique_ptr<Bound> bound_;
};

TEST_F(Rows, LeaveWhileTheOthersAreComputed) {
  EXPECT_EQ(ended_behind_the_first_half([](const at::Tensor& y) { return y.sum(); }, 2), 0);
  EXPECT_THAT(bound_->gradient("weight"), testing::Each(2));
}

TEST_F(Rows, AreComputedAtOnceWhereNobodyAwaitsThem) {
  bound_->await_no_pieces();
  EXPECT_EQ(ended_behind_the_first_half([](const at::Tensor& y) { return y.sum(); }, 2),
            kInputs * kOutputs / 2);
  EXPECT_THAT(bound_->gradient("weight"), testing::Each(2));
}

TEST_F(Rows, WaitForATermOfTheLossThatGoesAroundTheLayer) {
  const auto penalised = [this](const at::Tensor& y) { return y.sum() + layer_->weight.pow(2).sum(); };
  EXPECT_EQ(ended_behind_the_first_half(penalised, 4), kInputs * kOutputs / 2);
  EXPECT_THAT(bound_->gradient("weight"), testing::Each(4));
}

TEST_F(Rows, LeaveWithTheLastOfTwoUses) {
  forward_ = [this](const at::Tensor& x) {
    const at::Tensor y = layer_->forward(x);
    return layer_->forward(y.repeat({1, kInputs / kOutputs}) * 0 + 1) + y;
  };
  EXPECT_EQ(ended_behind_the_first_half([](const at::Tensor& y) { return y.sum(); }, 4), 0);
  EXPECT_THAT(bound_->gradient("weight"), testing::Each(4));
}

TEST_F(Rows, WaitForAUseAroundThePass) {
  const auto again = [this](const at::Tensor& y) {
    return layer_->forward(y.repeat({1, kInputs / kOutputs}) * 0 + 1).sum() + y.sum();
  };
  EXPECT_EQ(ended_behind_the_first_half(again, 4), kInputs * kOutputs / 2);
  EXPECT_THAT(bound_->gradient("weight"), testing::Each(4));
}

/// A backward pass inside of a node's: the graph around it says nothing of what it adds to.
struct AddsInside : torch::autograd::Function<AddsInside> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            std::int64_t layer) {
    context->saved_data["layer"] = layer;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::AutoGradMode with_gradients(true);
    reinterpret_cast<DirectLinearImpl*>(context->saved_data["layer"].toInt())->weight.sum().backward();
    return {gradients[0], at::Tensor()};
  }
};

TEST_F(Rows, ThatHaveLeftCannotGrow) {
  inputs_ = [this](std::int64_t samples) {
    return AddsInside::apply(torch::ones({samples, kInputs}, torch::requires_grad()),
                             reinterpret_cast<std::int64_t>(layer_.get()));
  };
  try {
    ended_behind_the_first_half([](const at::Tensor& y) { return y.sum(); }, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("torch::nn::Linear"));
  }
}

/// A layer, and a number that the loss alone reads.
struct ScaledImpl : torch::nn::Module {
  ScaledImpl() {
    scale = register_parameter("scale", torch::ones({1}));
    layer = register_module("layer", torch::nn::Linear(3, 2));
  }
  at::Tensor scale;
  torch::nn::Linear layer{nullptr};
};

/// The owner's thread is the test's, and the run's too: it asks for gradients when the owner needs it to.
class OwnerThatIsAskedLate final : public StepOwner {
 public:
  void advance(const StepInput&, ReadableWeights) override {}
  StepOutput compute(const StepInput&) override { return {}; }
  void recall() override {}
  void need(ReadableWeights weights) override {
    if (weights == kBackward && ask) std::exchange(ask, nullptr)();
  }
  std::function<void()> ask;
};

TEST(ModuleModel, GradientsThatComeBeforeTheyAreAwaitedWait) {
  ScaledImpl net;
  OwnerThatIsAskedLate owner;
  auto made =
      std::make_unique<ModuleModel>(net, DType::Float32, plan::ModelPlan{}, owner, WeightsAtBegin::AsRead);
  ModuleModel& model = *made;
  Bound bound(std::move(made));
  Recorder recorder;
  const Samples share = make_samples({{1}, 2}, 2);
  const StepInput step{share.inputs, share.labels, 2, 1};
  model.forward(step, 1);
  owner.ask = [&] { model.forward_backward(step, 0, recorder); };
  const at::Tensor outputs = model.weighted(step, {net.layer->forward(torch::ones({2, 3}))}).front();
  (outputs.sum() + 3 * net.scale.sum()).backward();  // that of the scale comes first
  model.end_passes();
  EXPECT_THAT(bound.gradient("scale"), testing::ElementsAre(3));
  EXPECT_THAT(bound.gradient("layer.bias"), testing::ElementsAre(2, 2));
  EXPECT_THAT(recorder.order, testing::UnorderedElementsAre(0, 1, 2));
}

/// A wide layer behind a narrow one.
struct WideImpl : torch::nn::Module {
  static constexpr std::int64_t kInputs = 8192, kOutputs = 160;  // 64 rows are 2 MiB
  WideImpl() {
    first = register_module("first", torch::nn::Linear(3, kInputs));
    wide = register_module("wide", DirectLinear(kInputs, kOutputs));
  }
  at::Tensor forward(const at::Tensor& x) { return wide->forward(first->forward(x)); }
  torch::nn::Linear first{nullptr};
  DirectLinear wide{nullptr};
};

TEST(ModuleModel, ReadsAWideLayerByRows) {
  WideImpl net;
  OwnerAtOnce owner;
  auto made =
      std::make_unique<ModuleModel>(net, DType::Float32, plan::ModelPlan{}, owner, WeightsAtBegin::AsRead);
  ModuleModel& model = *made;
  const ModelSpec& spec = model.spec();
  ASSERT_EQ(spec.segments[1].name, "wide");
  const int weight = spec.segments[1].weight_by_rows;
  ASSERT_GE(weight, 0);
  EXPECT_EQ(spec.parameters[static_cast<std::size_t>(weight)].name, "wide.weight");
  Bound bound(std::move(made));
  std::vector<ReadableWeights> needed, behind;
  owner.step = [&](const StepInput& input) {
    model.begin_reads();
    const auto outputs = model.weighted(input, {net.forward(torch::ones({2, 3}))});
    needed = std::exchange(owner.needed, {});
    net.wide->bias + 0;  // an operator that is none of a layer's
    behind = std::exchange(owner.needed, {});
    outputs.front().sum().backward();
    model.end_passes();
  };
  const Samples share = make_samples({{1}, 2}, 2);
  Recorder recorder;
  bound->forward_backward({share.inputs, share.labels, 2, 1}, 0, recorder);
  ASSERT_GE(needed.size(), 4);
  for (std::size_t i = 0; i + 3 < needed.size(); ++i) EXPECT_EQ(needed[i], ReadableWeights{1});
  EXPECT_THAT(std::vector(needed.end() - 3, needed.end()),
              testing::ElementsAre(ReadableWeights{1, 64}, ReadableWeights{1, 128}, ReadableWeights{1, 160}));
  EXPECT_THAT(behind, testing::Each(ReadableWeights{2}));
  EXPECT_FALSE(behind.empty());
}

long threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// OpenMP keeps every team, and lets the owner's threads wait actively only while all are no more than cores.
TEST(ModuleModel, IsBoundWithoutATeamOfTheRunsThread) {
  torch::nn::Linear net(1024, 1024);
  OwnerAtOnce owner;
  auto made = std::make_unique<ModuleModel>(*net, DType::Float32, plan::ModelPlan{}, owner);
  ModuleModel& model = *made;
  long before = 0, after = 0;
  std::thread([&] {
    at::set_num_threads(3);  // of this thread
    before = threads_of_process();
    Bound bound(std::move(made));
    model.unbind();
    after = threads_of_process();
  }).join();
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace taxon::model
