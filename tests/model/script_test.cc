// TorchScript files, and the framework's process-wide state.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/api/include/torch/utils.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "model/bench.h"
#include "model/scripts.h"
#include "plan/model_file.h"

namespace taxon::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const data::SampleShape kShape{{6}, 3};

class ScriptTest : public ::testing::Test {
 protected:
  ScriptTest() { std::filesystem::create_directories(folder_); }
  ~ScriptTest() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::unique_ptr<Model> load(const std::string& file, int rank = 0, DType compute = DType::Float32,
                              int threads = 1) const {
    plan::ModelPlan plan{.name = "", .torchscript = file};
    return make_model(
        {.plan = &plan, .shape = kShape, .compute = compute, .seed = 3, .rank = rank, .threads = threads});
  }
  Error failure(const std::string& file) const {
    try {
      load(file);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "loaded " << file;
    return Error(ErrorKind::Internal, "");
  }
  std::string linear() const {
    return Script("m").parameter("weight", {3, 6}).parameter("bias", {3}).save(path("linear.pt"), R"(
def forward(self, x):
    return torch.linear(x, self.weight, self.bias)
)");
  }
  std::string dropout() const {
    return Script("m").parameter("weight", {3, 6}).save(path("dropout.pt"), R"(
def forward(self, x):
    return torch.matmul(torch.dropout(x, 0.5, self.training), self.weight.t())
)");
  }

 private:
  std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) /
                                  ("taxon_model_" + std::to_string(::getpid()) +
                                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(ScriptTest, FailuresBlameWhatIsWrongInOneLineWithoutFrames) {
  const std::string number = Script("m").parameter("weight", {3, 6}).save(path("number.pt"), R"(
def forward(self, x):
    return (x.size(0), x)
)");
  const std::string two = Script("m").parameter("weight", {3, 6}).save(path("two.pt"), R"(
def forward(self, x, y):
    return torch.matmul(x + y, self.weight.t())
)");
  const std::string wide = Script("m").parameter("weight", {3, 7}).save(path("wide.pt"), R"(
def forward(self, x):
    return torch.matmul(x, self.weight.t())
)");
  const std::string raising = Script("m").parameter("weight", {3, 6}).save(path("raising.pt"), R"(
def forward(self, x):
    assert x.size(0) < 0, "not today"
    return x
)");
  for (const std::string& file : {number, two, wide, raising}) {
    const Error error = failure(file);
    EXPECT_EQ(error.kind(), ErrorKind::Data);
    const std::string what = error.what();
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_EQ(what.find("frame #"), std::string::npos) << what;
    EXPECT_EQ(what.find("Exception raised"), std::string::npos) << what;
  }
  EXPECT_THAT(failure(number).what(), HasSubstr("must give a tensor, or a tuple that begins with one"));
  EXPECT_THAT(failure(two).what(), HasSubstr("takes 2 tensors, and there are 1 of a batch"));
  EXPECT_THAT(failure(wide).what(), HasSubstr("does not take a batch of inputs float32 [6] and one int64"));
  EXPECT_THAT(failure(wide).what(), HasSubstr("mat"));
  EXPECT_THAT(failure(raising).what(), HasSubstr("not today"));
}

TEST_F(ScriptTest, OfATupleTheFirstIsLogits) {
  const std::string pair =
      Script("m").parameter("weight", {3, 6}).parameter("bias", {3}).save(path("pair.pt"), R"(
def forward(self, x):
    return (torch.linear(x, self.weight, self.bias), x)
)");
  const Samples samples = make_samples(kShape, 4);
  EXPECT_EQ(load(pair)->evaluate(samples.inputs, samples.labels).loss_sum,
            load(linear())->evaluate(samples.inputs, samples.labels).loss_sum);
}

TEST_F(ScriptTest, ItsOwnLossOfTwoInputsAndLabels) {
  const std::string file =
      Script("m").parameter("weight", {3, 6}).parameter("bias", {3}).save(path("own.pt"), R"(
def forward(self, x, flags, labels):
    y = torch.linear(torch.where(flags, x, x * 0), self.weight, self.bias)
    return (torch.cross_entropy_loss(y, labels), y)
)");
  const Samples samples = make_samples(kShape, 5);
  std::vector<std::uint8_t> flags;
  Samples masked = samples;
  for (std::size_t i = 0; i < samples.inputs.size(); ++i) {
    flags.push_back(i % 3 != 0);
    if (flags.back() == 0) masked.inputs[i] = 0;
  }
  data::SampleShape shape = kShape;
  shape.more = {{{6}, DType::UInt8}};
  const auto make = [&](plan::ModelReturns returns) {
    plan::ModelPlan plan{.name = "", .torchscript = file};
    plan.options = {{"returns", std::string(plan::to_string(returns))}};
    return make_model({.plan = &plan, .shape = shape, .compute = DType::Float64, .seed = 3});
  };
  Bound own(make(plan::ModelReturns::Loss), DType::Float64, DType::Float64);
  Bound plain(load(linear(), 0, DType::Float64), DType::Float64, DType::Float64);
  Recorder marks;
  const data::Inputs inputs(std::vector<data::Values>{samples.inputs, flags});
  const StepOutput output = own->forward_backward({inputs, samples.labels, 9, 2}, 0, marks);
  const StepOutput expected = plain.step(masked, 2, 9);
  EXPECT_NEAR(output.loss_sum, expected.loss_sum, 1e-12);
  EXPECT_EQ(output.counts, expected.counts);
  EXPECT_THAT(own.all_gradients(), testing::Pointwise(testing::DoubleNear(1e-12), plain.all_gradients()));
  EXPECT_THROW(make(plan::ModelReturns::Logits), Error);
}

TEST_F(ScriptTest, TrainsAsItIs) {
  const Samples samples = make_samples(kShape, 8);
  Bound model(load(linear(), 0, DType::Float64), DType::Float64, DType::Float64);
  EXPECT_EQ(model->spec().name, "linear");
  EXPECT_EQ(model->spec().parameter_count(), 21);
  const double start = model.step(samples).loss_sum;
  EXPECT_EQ(model->copies().copies, 2);
  // d/d bias of the mean cross entropy is the mean of (softmax - one hot): its sum over the classes is 0.
  const auto bias = model.gradient("bias");
  EXPECT_NEAR(bias[0] + bias[1] + bias[2], 0, 1e-12);
  for (int i = 0; i < 20; ++i) {
    model.step(samples);
    model.descend(0.5);
  }
  EXPECT_LT(model.step(samples).loss_sum, 0.8 * start);
  EXPECT_EQ(model->copies().copies, 0);
}

TEST_F(ScriptTest, GradientIsTheDerivativeOfTheLoss) {
  const Samples samples = make_samples(kShape, 5);
  auto built = load(linear(), 0, DType::Float64);
  auto values = built->parameters();
  Bound model(load(linear(), 0, DType::Float64), DType::Float64, DType::Float64);
  model.step(samples);
  const auto gradient = model.gradient("weight");
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

TEST_F(ScriptTest, SharedParameterIsListedOnceAndGetsBothGradients) {
  Script script("m");
  script.parameter("first", {6, 6}).parameter("bias", {3});
  script.module.register_parameter("second", script.module.attr("first").toTensor(), false);
  script.parameter("head", {3, 6});
  const auto file = script.save(path("shared.pt"), R"(
def forward(self, x):
    y = torch.tanh(torch.matmul(x, self.first))
    return torch.matmul(torch.matmul(y, self.second), self.head.t()) + self.bias
)");
  const Samples samples = make_samples(kShape, 5);
  auto built = load(file, 0, DType::Float64);
  ASSERT_THAT(built->spec().parameters, SizeIs(3));
  auto values = built->parameters();
  Bound model(load(file, 0, DType::Float64), DType::Float64, DType::Float64);
  model.step(samples, 2);
  auto loss_at = [&](double shift) {
    auto moved = values;
    moved[8] += shift;
    built->set_parameters(moved);
    return built->evaluate(samples.inputs, samples.labels).loss_sum / 5;
  };
  EXPECT_NEAR((loss_at(1e-5) - loss_at(-1e-5)) / 2e-5, model.gradient("first")[8], 1e-8);
}

TEST_F(ScriptTest, UnusedParameterGetsZerosAndItsMark) {
  const auto file =
      Script("m").parameter("unused", {4}).parameter("weight", {3, 6}).save(path("unused.pt"), R"(
def forward(self, x):
    return torch.matmul(x, self.weight.t())
)");
  const Samples samples = make_samples(kShape, 4);
  auto built = load(file);
  const auto order = built->gradient_order(samples.inputs, samples.labels);
  EXPECT_THAT(order, ElementsAre(1, 0));
  Bound model(std::move(built), DType::Float32, DType::Float32, order);
  for (float& value : model.gradients.values<float>({0, model.gradients.size()})) value = 7;
  model.step(samples);
  EXPECT_THAT(model.gradient("unused"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(model.marks, ElementsAre(0, 1));
}

TEST_F(ScriptTest, ParameterUsedOnlyInSomeStepsIsZeroInTheOthers) {
  const auto file =
      Script("m").parameter("weight", {3, 6}).parameter("sometimes", {3}).save(path("sometimes.pt"), R"(
def forward(self, x):
    y = torch.matmul(x, self.weight.t())
    if bool(x[0, 0] > 0):
        y = y + self.sometimes
    return y
)");
  Samples samples = make_samples(kShape, 2);
  Bound model(load(file));
  samples.inputs[0] = 1;
  model.step(samples);
  EXPECT_NE(model.gradient("sometimes")[0], 0);
  samples.inputs[0] = samples.inputs[6] = -1;
  model.step(samples);
  EXPECT_THAT(model.gradient("sometimes"), ElementsAre(0, 0, 0));
  EXPECT_THAT(model.marks, SizeIs(2));
  // Used in the first micro-batch, not in the last.
  samples.inputs[0] = 1;
  model.step(samples, 2);
  EXPECT_NE(model.gradient("sometimes")[0], 0);
}

TEST_F(ScriptTest, FrozenInTheFileAndByThePlan) {
  const auto file = Script("m")
                        .parameter("weight", {3, 6})
                        .parameter("scale", {3}, /*trainable=*/false)
                        .parameter("bias", {3})
                        .save(path("frozen.pt"), R"(
def forward(self, x):
    return torch.matmul(x, self.weight.t()) * self.scale + self.bias
)");
  plan::ModelPlan plan{.name = "", .torchscript = file, .frozen = {"bi*"}};
  auto model = make_model({.plan = &plan, .shape = kShape});
  EXPECT_TRUE(model->spec().parameters[0].trainable);
  EXPECT_FALSE(model->spec().parameters[1].trainable);
  EXPECT_FALSE(model->spec().parameters[2].trainable);
  Bound bound(std::move(model));
  bound.step(make_samples(kShape, 2));
  EXPECT_THAT(bound.marks, ElementsAre(0));
}

TEST_F(ScriptTest, BuffersChangeInTrainingAndRoundTrip) {
  const auto file = Script("m")
                        .parameter("weight", {3, 6})
                        .buffer("seen", at::zeros({1}, at::kLong))
                        .buffer("mean", at::zeros({6}))
                        .save(path("buffers.pt"), R"(
def forward(self, x):
    if self.training:
        self.seen.add_(1)
        self.mean.mul_(0.5).add_(x.mean(0), alpha=0.5)
    return torch.matmul(x - self.mean, self.weight.t())
)");
  const Samples samples = make_samples(kShape, 4);
  Bound model(load(file));
  ASSERT_THAT(model->spec().buffers, SizeIs(2));
  model->gradient_order(samples.inputs, samples.labels);
  EXPECT_THAT(model->buffers(), ElementsAre(0, 0, 0, 0, 0, 0, 0));
  model.step(samples, 3);
  const auto buffers = model->buffers();
  EXPECT_EQ(buffers[0], 3);
  EXPECT_NE(buffers[1], 0);
  Bound other(load(file));
  other->set_buffers(buffers);
  EXPECT_EQ(other->buffers(), buffers);
  EXPECT_EQ(other->evaluate(samples.inputs, samples.labels).loss_sum,
            model->evaluate(samples.inputs, samples.labels).loss_sum);
}

TEST_F(ScriptTest, ModelsInOneProcessDoNotSeeEachOther) {
  const auto file = dropout();
  const Samples samples = make_samples(kShape, 16);
  std::vector<std::vector<double>> alone;
  for (int rank : {0, 1}) {
    Bound model(load(file, rank));
    for (int step = 0; step < 3; ++step) {
      model.step(samples);
      alone.push_back(model.all_gradients());
    }
  }
  EXPECT_NE(alone[0], alone[3]) << "ranks must draw different masks";
  EXPECT_NE(alone[0], alone[1]) << "steps must draw different masks";
  Bound first(load(file, 0)), second(load(file, 1));
  for (std::size_t step = 0; step < 3; ++step) {
    first.step(samples);
    at::rand({5});
    second.step(samples);
    EXPECT_EQ(first.all_gradients(), alone[step]);
    EXPECT_EQ(second.all_gradients(), alone[3 + step]);
  }
}

TEST_F(ScriptTest, RandomStateContinuesTheStream) {
  const auto file = dropout();
  const Samples samples = make_samples(kShape, 16);
  Bound model(load(file));
  model.step(samples);
  const auto state = model->random_state();
  model.step(samples);
  Bound other(load(file));
  other->set_random_state(ConstView(state.data(), state.size()));
  other->gradient_order(samples.inputs, samples.labels);
  other->evaluate(samples.inputs, samples.labels);
  other.step(samples);
  EXPECT_EQ(other.all_gradients(), model.all_gradients());
  const std::vector<std::byte> damaged(17);
  EXPECT_THROW(other->set_random_state(ConstView(damaged.data(), damaged.size())), Error);
}

TEST_F(ScriptTest, CallsLeaveTheProcessesStateAlone) {
  const Samples samples = make_samples(kShape, 4);
  torch::manual_seed(1);
  const double expected = at::rand({1}).item<double>();
  const int threads = at::get_num_threads();
  torch::manual_seed(1);
  Bound model(load(dropout(), 0, DType::Float32, threads + 1));
  model.step(samples);
  EXPECT_EQ(at::rand({1}).item<double>(), expected);
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST_F(ScriptTest, MissingFile) {
  const Error error = failure(path("nowhere.pt"));
  EXPECT_EQ(error.kind(), ErrorKind::Data);
  EXPECT_THAT(error.what(), HasSubstr("nowhere.pt"));
}

TEST_F(ScriptTest, ForeignAndTruncatedFiles) {
  std::ofstream(path("text.pt")) << "not a model";
  EXPECT_EQ(failure(path("text.pt")).kind(), ErrorKind::Data);
  const auto whole = linear();
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) / 2);
  EXPECT_EQ(failure(whole).kind(), ErrorKind::Data);
}

TEST_F(ScriptTest, ModelThatDoesNotFitTheData) {
  const auto narrow = Script("m").parameter("weight", {3, 7}).save(path("narrow.pt"), R"(
def forward(self, x):
    return torch.matmul(x, self.weight.t())
)");
  const Error shape = failure(narrow);
  EXPECT_EQ(shape.kind(), ErrorKind::Data);
  EXPECT_THAT(shape.what(), HasSubstr("inputs float32 [6]"));
  const auto wide = Script("m").parameter("weight", {4, 6}).save(path("wide.pt"), R"(
def forward(self, x):
    return torch.matmul(x, self.weight.t())
)");
  const Error classes = failure(wide);
  EXPECT_EQ(classes.kind(), ErrorKind::Data);
  EXPECT_THAT(classes.what(), HasSubstr("gave [2, 4]"));
}

TEST_F(ScriptTest, NothingToTrain) {
  const auto file = Script("m").buffer("weight", at::ones({3, 6})).save(path("constant.pt"), R"(
def forward(self, x):
    return torch.matmul(x, self.weight.t())
)");
  const Error error = failure(file);
  EXPECT_EQ(error.kind(), ErrorKind::Data);
  EXPECT_THAT(error.what(), HasSubstr("no parameter to train"));
}

}  // namespace
}  // namespace taxon::model
