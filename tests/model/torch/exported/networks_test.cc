// Networks that PyTorch 2.15 exported, beside what PyTorch makes of them (make_networks.py).
#include "model/torch/exported/networks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <map>

#include "base/error.h"
#include "model/torch/exported/interpreter.h"
#include "model/torch/exported/program.h"

namespace taxon::model::exported {
namespace {

constexpr std::int64_t kBatch = 6;
constexpr int kSteps = 100;

/// Networks that a libtorch refuses, with the operator: those of newer ones have all.
const std::map<std::string, std::string>& refused() {
#if TORCH_VERSION_MAJOR < 2
  static const std::map<std::string, std::string> kRefused = {
      {"norms", "operator aten._native_batch_norm_legit_functional.default at node "},
      {"rms_norm", "operator aten.rms_norm.default at node rms_norm"},
  };
#else
  static const std::map<std::string, std::string> kRefused = {};
#endif
  return kRefused;
}

/// A loaded network as a user of the interpreter has it.
class Loaded {
 public:
  explicit Loaded(const Reference& reference)
      : program_(read_program(reference.path)), interpreter_(std::move(program_.graph)) {
    for (std::size_t i = 0; i < reference.inputs.size(); ++i)
      inputs_.push_back(input_of(i, reference.inputs[i], reference.is_double ? at::kDouble : at::kFloat));
  }
  at::Tensor loss(Mode mode) {
    const at::Tensor logits = interpreter_.run(program_.stored, inputs_, mode).at(0);
    const std::int64_t classes = logits.size(-1), rows = logits.numel() / classes;
    const at::Tensor labels = (at::arange(rows, at::kLong) * 7 + 3).remainder(classes);
    return at::cross_entropy_loss(logits.reshape({rows, classes}), labels);
  }
  double train_step(double rate) {
    for (const NamedTensor& item : program_.parameters) at::Tensor(item.tensor).mutable_grad() = at::Tensor();
    const at::Tensor loss = this->loss(Mode::Train);
    torch::autograd::backward({loss}, {});
    at::NoGradGuard no_grad;
    for (const NamedTensor& item : distinct()) at::Tensor(item.tensor).sub_(item.tensor.grad(), rate);
    return loss.item<double>();
  }
  double evaluate() {
    at::NoGradGuard no_grad;
    return loss(Mode::Evaluate).item<double>();
  }
  /// Shared parameters once, under their first names.
  std::vector<NamedTensor> distinct() const {
    std::vector<NamedTensor> list;
    for (const NamedTensor& item : program_.parameters) {
      bool known = false;
      for (const NamedTensor& other : list) known = known || other.tensor.is_same(item.tensor);
      if (!known) list.push_back(item);
    }
    return list;
  }
  const std::vector<NamedTensor>& buffers() const { return program_.buffers; }

 private:
  static at::Tensor input_of(std::size_t index, const Reference::Input& input, at::ScalarType type) {
    std::vector<std::int64_t> shape{kBatch};
    shape.insert(shape.end(), input.shape.begin(), input.shape.end());
    const at::Tensor i = at::arange(c10::multiply_integers(shape), at::kLong);
    if (input.below < 0) return i.remainder(3).ne(0).reshape(shape);
    if (input.below > 0) return (i * i * 31 + i * 7 + 3).remainder(input.below).reshape(shape);
    return (i.to(at::kDouble) * 0.37 + 0.1 * static_cast<double>(index)).sin().reshape(shape).to(type);
  }

  Program program_;
  Interpreter interpreter_;
  std::vector<at::Tensor> inputs_;
};

void expect_like(const at::Tensor& tensor, const Reference::Summary& expected, const std::string& what) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).flatten();
  EXPECT_NEAR(flat.norm().item<double>(), expected.norm, 1e-5 * std::max(1.0, expected.norm)) << what;
  EXPECT_NEAR(flat[0].item<double>(), expected.first, 1e-5) << what;
  EXPECT_NEAR(flat[-1].item<double>(), expected.last, 1e-5) << what;
}

/// Those that this libtorch does not refuse, see RefusesByName.
std::vector<Reference> understood() {
  std::vector<Reference> all = references();
  std::erase_if(all, [](const Reference& reference) { return refused().contains(reference.name); });
  return all;
}

class ExportedNetworks : public ::testing::TestWithParam<Reference> {
 protected:
  void SetUp() override { at::manual_seed(1); }
};

TEST_P(ExportedNetworks, FirstStepIsPyTorchs) {
  const Reference& expected = GetParam();
  Loaded network(expected);
  EXPECT_NEAR(network.evaluate(), expected.evaluation, 1e-5);
  if (expected.is_random) return;
  EXPECT_NEAR(network.train_step(0), expected.loss, 1e-5);
  std::map<std::string, at::Tensor> found;
  for (const NamedTensor& item : network.distinct()) found[item.name] = item.tensor.grad();
  ASSERT_EQ(found.size(), expected.gradients.size());
  for (const Reference::Summary& gradient : expected.gradients) {
    ASSERT_TRUE(found.contains(gradient.name)) << gradient.name;
    expect_like(found[gradient.name], gradient, gradient.name);
  }
  std::map<std::string, at::Tensor> buffers;
  for (const NamedTensor& item : network.buffers()) buffers[item.name] = item.tensor;
  ASSERT_EQ(buffers.size(), expected.buffers.size());
  for (const Reference::Summary& buffer : expected.buffers)
    expect_like(buffers.at(buffer.name), buffer, buffer.name);
}

TEST_P(ExportedNetworks, HundredStepsTrainAsFar) {
  const Reference& expected = GetParam();
  Loaded network(expected);
  const double before = network.evaluate();
  for (int step = 0; step < kSteps; ++step) network.train_step(expected.rate);
  if (expected.is_random) {
    EXPECT_LT(network.evaluate(), before);
    return;
  }
  EXPECT_NEAR(network.loss(Mode::Train).item<double>(), expected.trained, 0.01 * expected.trained);
  EXPECT_LT(expected.trained, expected.loss);
}

TEST_P(ExportedNetworks, EvaluationIsWithoutNoiseAndLeavesBuffersAlone) {
  Loaded network(GetParam());
  network.train_step(GetParam().rate);
  std::vector<at::Tensor> before;
  for (const NamedTensor& item : network.buffers()) before.push_back(item.tensor.clone());
  const double first = network.evaluate();
  EXPECT_EQ(network.evaluate(), first);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(before[i].equal(network.buffers()[i].tensor)) << network.buffers()[i].name;
  if (GetParam().is_random) {
    EXPECT_NE(network.loss(Mode::Train).item<double>(), network.loss(Mode::Train).item<double>());
  }
}

std::string name_of(const ::testing::TestParamInfo<Reference>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(All, ExportedNetworks, ::testing::ValuesIn(understood()), name_of);

TEST(ExportedNetworks, RefusesByName) {
  for (const Reference& reference : references()) {
    std::string why;
    try {
      Loaded network(reference);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Data);
      why = error.what();
    }
    const auto expected = refused().find(reference.name);
    const bool is_expected = expected != refused().end();
    EXPECT_EQ(why.empty(), !is_expected) << reference.name << ": " << why;
    if (is_expected) {
      EXPECT_THAT(why, ::testing::HasSubstr(expected->second)) << reference.name;
    }
  }
}

TEST(ExportedNetworks, SharedParametersAreOneTensor) {
  const Program program = read_program(path_of("tied.pt2"));
  std::map<std::string, at::Tensor> parameters;
  for (const NamedTensor& item : program.parameters) parameters[item.name] = item.tensor;
  EXPECT_TRUE(parameters.at("first.weight").is_same(parameters.at("second.weight")));
  EXPECT_FALSE(parameters.at("first.bias").is_same(parameters.at("second.bias")));
}

}  // namespace
}  // namespace taxon::model::exported
