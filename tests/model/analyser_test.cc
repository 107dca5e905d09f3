// Gradients that are born where they travel from: no copies once the sites are traced, and the same bits.
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "model/bench.h"
#include "model/scripts.h"
#include "model/torch/network.h"
#include "model/torch/torch_model.h"

namespace taxon::model {
namespace {

using ::testing::HasSubstr;

const data::SampleShape kDigitImages{{1, 12, 12}, 5};
const data::SampleShape kVectors{{6}, 3};
const data::SampleShape kSequences{{8, 4}, 3};

class AnalyserTest : public ::testing::Test {
 protected:
  AnalyserTest() { std::filesystem::create_directories(folder_); }
  ~AnalyserTest() override { std::filesystem::remove_all(folder_); }

  static std::unique_ptr<Model> bundled(const std::string& name, DType compute = DType::Float32,
                                        plan::MemoryFormat memory_format = plan::MemoryFormat::Auto) {
    plan::ModelPlan plan{.name = name, .memory_format = memory_format};
    return make_model({.plan = &plan, .shape = kDigitImages, .compute = compute, .seed = 11});
  }
  static std::unique_ptr<Model> load(const std::string& file, const data::SampleShape& shape) {
    plan::ModelPlan plan{.name = "", .torchscript = file};
    return make_model({.plan = &plan, .shape = shape, .seed = 3});
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// A recurrent layer over as many steps as the first value of the batch says.
  std::string lstm() const {
    Script script("m");
    script.parameter("input", {20, 4}).parameter("recurrent", {20, 5});
    script.parameter("input_bias", {20}).parameter("recurrent_bias", {20}).parameter("out", {3, 5});
    return script.save(path("lstm.pt"), R"(
def forward(self, x):
    steps = 2 + int((float(x[0, 0, 0]) + 1.0) * 2.99)
    state = torch.zeros([1, x.size(0), 5], dtype=x.dtype)
    weights = [self.input, self.recurrent, self.input_bias, self.recurrent_bias]
    y, h, c = torch.lstm(x[:, :steps], [state, state], weights, True, 1, 0.0, self.training, False, True)
    return torch.matmul(y[:, -1], self.out.t())
)");
  }
  /// The same written out, with the weights transposed once for all steps.
  std::string loop() const {
    Script script("m");
    script.parameter("input", {5, 4}).parameter("recurrent", {5, 5}).parameter("bias", {5});
    return script.parameter("out", {3, 5}).save(path("loop.pt"), R"(
def forward(self, x):
    steps = 2 + int((float(x[0, 0, 0]) + 1.0) * 2.99)
    h = torch.zeros([x.size(0), 5], dtype=x.dtype)
    recurrent = self.recurrent.t()
    for i in range(steps):
        h = torch.tanh(torch.linear(x[:, i], self.input, self.bias) + torch.mm(h, recurrent))
    return torch.matmul(h, self.out.t())
)");
  }
  std::string convolutions() const {
    Script script("m");
    script.parameter("kernel", {4, 1, 3, 3})
        .parameter("bias", {4})
        .parameter("scale", {4})
        .parameter("shift", {4});
    return script.parameter("out", {5, 4 * 100}).parameter("out_bias", {5}).save(path("convolutions.pt"), R"(
def forward(self, x):
    y = torch.conv2d(x, self.kernel, self.bias)
    y = torch.batch_norm(y, self.scale, self.shift, None, None, True, 0.1, 1e-5, False)
    return torch.linear(torch.flatten(torch.relu(y), 1), self.out, self.out_bias)
)");
  }
  /// Which of two ways it takes the first value says: `one` if it is positive. For six samples, so that
  /// activations are as large as weights.
  std::string branches(const std::string& one, const std::string& other) const {
    return Script("m")
        .parameter("weight", {6, 6})
        .parameter("scale", {6, 6})
        .parameter("out", {3, 6})
        .save(path("branches.pt"), R"(
def forward(self, x):
    if not self.training:
        return torch.matmul(x, self.out.t())
    if bool(x[0, 0] > 0):
)" + one + R"(
    else:
)" + other + R"(
    return torch.matmul(y, self.out.t())
)");
  }

 private:
  static std::string make_folder() {
    std::string folder = ::testing::TempDir() + "taxon_analyser_XXXXXX";
    return ::mkdtemp(folder.data());
  }
  std::filesystem::path folder_ = make_folder();
};

/// A model twice, with the analyser and without it, through the same steps.
class Twins {
 public:
  explicit Twins(const std::function<std::unique_ptr<Model>()>& make, DType type = DType::Float32)
      : placed(make(), type, type), copied(make(), type, type) {
    Binding binding = copied.binding();
    binding.births = Binding::Births::Copied;
    copied->bind(binding);
  }
  /// Expects the same bits. Returns the copies of the one with the analyser.
  std::int64_t step(const Samples& samples, int micro_batches = 1) {
    placed.fill_gradients(7);
    copied.fill_gradients(-7);
    const StepOutput output = placed.step(samples, micro_batches);
    EXPECT_EQ(output.loss_sum, copied.step(samples, micro_batches).loss_sum);
    EXPECT_EQ(placed.all_gradients(), copied.all_gradients());
    for (Bound* twin : {&placed, &copied}) twin->descend(0.05);
    return placed->copies().copies;
  }
  /// The same samples but for the first value.
  std::int64_t branch(float first) {
    Samples samples = make_samples(kVectors, 6);
    samples.inputs[0] = first;
    return step(samples);
  }
  Bound placed, copied;
};

struct Traced {
  std::string name;
  std::int64_t copied;     // gradients that no layer writes into the arena itself
  std::int64_t rest = 0;   // those of another layout than their parameters
  std::int64_t known = 3;  // steps until every length of the graph has been traced
};

class CopiesOf : public AnalyserTest, public ::testing::WithParamInterface<Traced> {
 protected:
  // What oneDNN's recurrent layers, which newer releases of libtorch take, allocate depends on the length of
  // the sequence; the graph is meant here.
  CopiesOf() { at::globalContext().setUserEnabledMkldnn(GetParam().name != "lstm"); }
  ~CopiesOf() override { at::globalContext().setUserEnabledMkldnn(true); }
  const data::SampleShape& shape() const {
    const std::string& name = GetParam().name;
    return name == "lstm" || name == "loop" ? kSequences : kDigitImages;
  }
  std::unique_ptr<Model> make() const {
    const std::string& name = GetParam().name;
    if (name == "lstm") return load(lstm(), kSequences);
    if (name == "loop") return load(loop(), kSequences);
    if (name == "convolutions") return load(convolutions(), kDigitImages);
    if (name == "cnn_contiguous") return bundled("cnn", DType::Float32, plan::MemoryFormat::Contiguous);
    if (name == "resnet18_channels_last")
      return bundled("resnet18", DType::Float32, plan::MemoryFormat::ChannelsLast);
    return bundled(name);
  }
};

TEST_P(CopiesOf, AreZeroOnceAllIsTracedWithTheSameBits) {
  Twins twins([this] { return make(); });
  const auto parameters = static_cast<std::int64_t>(twins.placed->spec().parameters.size());
  for (std::uint64_t step = 0; step < 8; ++step) {
    const std::int64_t copies = twins.step(make_samples(shape(), 4, step));
    if (step == 0) {
      EXPECT_EQ(copies, GetParam().copied);
    }
    if (static_cast<std::int64_t>(step) >= GetParam().known) {
      EXPECT_EQ(copies, GetParam().rest) << "in step " << step + 1;
    }
    EXPECT_EQ(twins.copied->copies().copies, GetParam().copied) << "the counter must count";
  }
  const std::vector<GradientTransfer> crossings = twins.placed->crossings();
  ASSERT_EQ(static_cast<std::int64_t>(crossings.size()), parameters);
  for (const GradientTransfer& crossing : crossings) {
    EXPECT_EQ(crossing.shape, GradientTransfer::Shape::Static) << crossing.name;
    EXPECT_EQ(crossing.steps, 8);
    EXPECT_GT(crossing.bytes, 0);
    if (crossing.why != "its layout is not the parameter's") {
      EXPECT_LE(crossing.last_copy, GetParam().known) << crossing.name << " " << crossing.why;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CopiesOf,
                         ::testing::Values(Traced{"mlp", 3}, Traced{"lenet5", 7}, Traced{"cnn", 6},
                                           Traced{"cnn_contiguous", 6}, Traced{"resnet18", 61},
                                           Traced{"resnet18_channels_last", 61}, Traced{"lstm", 5, 0, 5},
                                           Traced{"loop", 4}, Traced{"convolutions", 6}),
                         [](const auto& info) { return info.param.name; });

TEST_F(AnalyserTest, CrossingsNameTheirTensorsAndCountCopies) {
  Twins twins([] { return bundled("mlp"); });
  for (int step = 0; step < 3; ++step) twins.step(make_samples(kDigitImages, 4));
  const GradientTransfer weight = twins.placed->crossings()[0], bias = twins.placed->crossings()[1];
  EXPECT_EQ(weight.name, "fc1.weight");
  EXPECT_EQ(weight.bytes, 4 * 144 * 256);
  EXPECT_EQ(weight.copies, 0);
  EXPECT_EQ(weight.why, "");
  EXPECT_EQ(bias.copies, 1);
  EXPECT_EQ(bias.last_copy, 1);
  EXPECT_NE(bias.why, "");
  EXPECT_EQ(twins.copied->crossings()[1].copies, 3);
  EXPECT_EQ(twins.copied->crossings()[1].last_copy, 3);
}

TEST_F(AnalyserTest, FactorsOfSharesThatDifferAreDynamic) {
  Bound model(bundled("mlp"));
  model.leave_factors(6);
  model.step(make_samples(kDigitImages, 6), 1, 12);
  model.step(make_samples(kDigitImages, 6), 1, 12);
  EXPECT_EQ(model->crossings()[0].shape, GradientTransfer::Shape::Static);
  model.step(make_samples(kDigitImages, 5), 1, 12);
  EXPECT_EQ(model->crossings()[0].shape, GradientTransfer::Shape::Dynamic);
  EXPECT_EQ(model->crossings()[1].shape, GradientTransfer::Shape::Static);
  EXPECT_EQ(model->crossings()[0].bytes, 4 * 5 * (144 + 256));
}

TEST_F(AnalyserTest, AnInjectedInPlaceOperationIsTracedAgain) {
  Twins twins([this] {
    return load(branches(R"(
        y = torch.matmul(x, self.weight.t()) * self.scale)",
                         R"(
        changed = self.weight.clone()
        changed.mul_(2.0)
        y = torch.matmul(x, changed.t()).add_(1.0).mul_(self.scale))"),
                kVectors);
  });
  EXPECT_EQ(twins.branch(1), 3);
  EXPECT_EQ(twins.branch(1), 0);
  EXPECT_GT(twins.branch(-1), 0);
  EXPECT_LE(twins.placed->copies().copies, 2);  // the last layer's is where it was
  EXPECT_EQ(twins.branch(-1), 0);
  // Both are known from now on.
  EXPECT_EQ(twins.branch(1), 0);
  EXPECT_EQ(twins.branch(-1), 0);
}

TEST_F(AnalyserTest, ABranchThatLeavesParametersOutGivesThemZeros) {
  Twins twins([this] {
    return load(branches(R"(
        y = torch.matmul(x, self.weight.t()) * self.scale)",
                         R"(
        y = x * 2.0)"),
                kVectors);
  });
  for (float first : {1.F, 1.F, -1.F, 1.F, -1.F, -1.F, 1.F}) twins.branch(first);
  EXPECT_EQ(twins.placed->copies().copies, 0);
}

// Where the second factor's gradient was born comes that of the first, which is still read when the second
// one's arrives from elsewhere.
TEST_F(AnalyserTest, APlaceThatAnotherTensorGotIsWrittenWhenThatIsGone) {
  Twins twins([this] {
    return load(branches(R"(
        y = self.scale * x)",
                         R"(
        y = self.scale * torch.matmul(x, self.weight))"),
                kVectors);
  });
  EXPECT_EQ(twins.branch(1), 2);
  EXPECT_EQ(twins.branch(1), 0);
  EXPECT_EQ(twins.branch(-1), 2);  // the weight's for the first time; the scale's, born elsewhere
  EXPECT_EQ(twins.branch(-1), 0);
  for (float first : {1.F, -1.F, 1.F, 1.F, -1.F, -1.F}) twins.branch(first);
  EXPECT_EQ(twins.placed->copies().copies, 0);
}

TEST_F(AnalyserTest, AGradientInAnothersPlaceEndsInItsOwn) {
  Twins twins([this] {
    return load(branches(R"(
        y = x * self.scale)",
                         R"(
        y = x + self.weight * self.scale)"),
                kVectors);
  });
  for (float first : {1.F, 1.F, -1.F, 1.F, -1.F, -1.F}) twins.branch(first);
  EXPECT_EQ(twins.placed->copies().copies, 0);
}

TEST_F(AnalyserTest, AGradientThatIsSharedIsCopiedOnce) {
  const std::string none = R"(
        y = x)";
  // One tensor is the gradient of both.
  Twins sum([&] {
    return load(branches(R"(
        y = torch.matmul(x, self.weight + self.scale))",
                         none),
                kVectors);
  });
  for (int step = 0; step < 4; ++step) EXPECT_EQ(sum.branch(1), step == 0 ? 3 : 1);
  // As a view of what the gradient of something else is still made from.
  Twins view([&] {
    return load(branches(R"(
        y = ((torch.matmul(x, self.weight) * 3.0).view([4, 9]) + self.scale.view([4, 9])).view([6, 6]))",
                         none),
                kVectors);
  });
  for (int step = 0; step < 4; ++step) EXPECT_EQ(view.branch(1), step == 0 ? 3 : 1);
}

TEST_F(AnalyserTest, ATransposedGradientIsCopiedInEveryStep) {
  Twins twins([this] {
    return load(branches(R"(
        y = torch.matmul(x, self.weight.t().contiguous()) * self.scale)",
                         R"(
        y = x)"),
                kVectors);
  });
  for (int step = 0; step < 4; ++step) EXPECT_EQ(twins.branch(1), step == 0 ? 3 : 1);
}

TEST_F(AnalyserTest, LaterMicroBatchesAddToWhatTheFirstPutInPlace) {
  Twins twins([] { return bundled("lenet5"); });
  for (int step = 0; step < 2; ++step) twins.step(make_samples(kDigitImages, 6), 3);
  EXPECT_EQ(twins.placed->copies().copies, 2 * 7);
  EXPECT_EQ(twins.copied->copies().copies, 3 * 7);
  EXPECT_THAT(twins.placed->crossings()[0].why, HasSubstr("micro-batch"));
  EXPECT_EQ(twins.step(make_samples(kDigitImages, 6)), 0);
}

TEST_F(AnalyserTest, OtherTypesArePlacedWhereNothingIsConverted) {
  Twins half([] { return bundled("lenet5", DType::BFloat16); }, DType::BFloat16);
  Twins wide([] { return bundled("lenet5", DType::Float64); }, DType::Float64);
  for (int step = 0; step < 4; ++step) {
    half.step(make_samples(kDigitImages, 4));
    wide.step(make_samples(kDigitImages, 4));
  }
  EXPECT_EQ(half.placed->copies().copies, 0);
  EXPECT_EQ(wide.placed->copies().copies, 0);
  Bound mixed(bundled("lenet5", DType::BFloat16), DType::BFloat16, DType::Float32);
  for (int step = 0; step < 4; ++step) mixed.step(make_samples(kDigitImages, 4));
  EXPECT_EQ(mixed->copies().copies, 10);
}

TEST_F(AnalyserTest, PiecesArePlacedToo) {
  const Samples samples = make_samples(kDigitImages, 4);
  for (const char* name : {"lenet5", "resnet18"}) {
    Bound whole(bundled(name)), pieces(bundled(name));
    Binding binding = pieces.binding();
    binding.backward = Binding::Backward::InPieces;
    pieces->bind(binding);
    const auto segments = static_cast<int>(pieces->spec().segments.size());
    for (int step = 0; step < 4; ++step) {
      whole.step(samples);
      for (int from = segments - 1; from >= 0; --from) {
        Recorder recorder;
        pieces->forward_backward({samples.inputs, samples.labels, 4, 1}, from, recorder);
      }
      EXPECT_EQ(pieces.all_gradients(), whole.all_gradients()) << name;
      EXPECT_EQ(pieces->copies().copies > 0, step == 0) << name;
    }
  }
}

TEST_F(AnalyserTest, ArenasThatTakeTurnsAreFilledInTurn) {
  const Samples samples = make_samples(kDigitImages, 4);
  Bound model(bundled("lenet5"));
  tensor::Arena other(DType::Float32, model.gradients.size());
  Binding binding = model.binding();
  binding.gradients.push_back(&other);
  model->bind(binding);
  Recorder recorder;
  for (std::size_t step = 0; step < 4; ++step)
    model->forward_backward({samples.inputs, samples.labels, 4, 1, step % 2}, 0, recorder);
  EXPECT_EQ(model->copies().copies, 0);
  EXPECT_TRUE(std::equal(model.gradients.bytes().data(),
                         model.gradients.bytes().data() + model.gradients.bytes().size(),
                         other.bytes().data()));
}

/// Keeps the gradient that comes through.
struct Hoard : torch::autograd::Function<Hoard> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            std::int64_t kept) {
    context->saved_data["kept"] = kept;
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& outputs) {
    *reinterpret_cast<at::Tensor*>(context->saved_data["kept"].toInt()) = outputs[0];
    return {outputs[0], at::Tensor()};
  }
};

class HoardingNetwork final : public Network {
 public:
  std::vector<NamedTensor> parameters() const override { return {{"weight", weight_}, {"scale", scale_}}; }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::vector<std::string> stages() const override { return {}; }
  at::Tensor forward(int, at::Tensor inputs) override {
    if (mode_ == Mode::Evaluate) return inputs.narrow(1, 0, 3);
    if (hoards) inputs = Hoard::apply(at::matmul(inputs, weight_), reinterpret_cast<std::int64_t>(&kept));
    return (scale_ * inputs).narrow(1, 0, 3);
  }
  void set_mode(Mode mode) override { mode_ = mode; }
  void cast(at::ScalarType) override {}
  void offer(const at::Tensor&, GradientTarget*) override {}
  ErrorKind fault() const override { return ErrorKind::Internal; }
  bool hoards = false;
  at::Tensor kept;

 private:
  Mode mode_ = Mode::Train;
  at::Tensor weight_ = at::ones({6, 6}).set_requires_grad(true),
             scale_ = at::ones({6, 6}).set_requires_grad(true);
};

TEST_F(AnalyserTest, ATensorThatStaysInAGradientsPlaceIsAnErrorThatSaysWhatToDo) {
  HoardingNetwork* network = nullptr;
  plan::ModelPlan plan{.name = "hoarding"};
  Bound model(std::make_unique<TorchModel>("hoarding", ModelContext{.plan = &plan, .shape = kVectors}, [&] {
    auto built = std::make_unique<HoardingNetwork>();
    network = built.get();
    return built;
  }));
  const Samples samples = make_samples(kVectors, 6);
  model.step(samples);
  model.step(samples);
  EXPECT_EQ(model->copies().copies, 0);
  network->hoards = true;
  try {
    model.step(samples);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("keep a clone"));
  }
}

}  // namespace
}  // namespace taxon::model
