// A model of one's own, trained by two ranks: what the step loop needs to know is model::Model, no framework.
#include <cmath>
#include <iostream>

#include "data/memory_storage.h"
#include "net/loopback/loopback.h"
#include "task/poll_loop.h"
#include "task/scope.h"
#include "tensor/cpu_device.h"
#include "train/train.h"

using namespace taxon;

// Softmax regression: one matrix [classes][inputs], trained in place in the arena that it is bound to.
class SoftmaxRegression final : public model::Model {
 public:
  explicit SoftmaxRegression(const data::SampleShape& shape)
      : inputs_(shape.elements()), classes_(shape.classes) {
    spec_.name = "softmax regression";
    spec_.parameters = {{"weight", {classes_, inputs_}, true}};
    spec_.segments = {{"all", {0}, 0}};
    start_.resize(static_cast<std::size_t>(classes_ * inputs_));
  }
  const model::ModelSpec& spec() const override { return spec_; }
  std::vector<int> gradient_order(std::span<const float>, std::span<const std::int64_t>) override {
    return {0};
  }
  void bind(const model::Binding& binding) override {
    auto range = binding.layout->slots()[0].range;
    weights_ = binding.weights->values<float>(range);
    gradients_ = binding.gradients->values<float>(range);
    std::copy(start_.begin(), start_.end(), weights_.begin());
  }
  void unbind() override {
    start_ = parameters();
    weights_ = gradients_ = {};
  }
  model::StepOutput forward_backward(const model::StepInput& input, tensor::Marks& marks) override {
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    auto output = pass(input.inputs, input.labels, 1.0f / static_cast<float>(input.global_size));
    marks.reached(0);  // the only bucket is complete: its exchange begins
    return output;
  }
  model::StepOutput evaluate(std::span<const float> inputs, std::span<const std::int64_t> labels) override {
    return pass(inputs, labels, 0);
  }
  std::vector<double> buffers() const override { return {}; }
  void set_buffers(std::span<const double>) override {}
  std::vector<double> parameters() const override {
    return weights_.empty() ? start_ : std::vector<double>(weights_.begin(), weights_.end());
  }
  void set_parameters(std::span<const double> values) override {
    start_.assign(values.begin(), values.end());
  }
  std::vector<std::byte> random_state() const override { return {}; }
  void set_random_state(ConstView) override {}
  model::CopyCount copies() const override { return {}; }

 private:
  // `scale` multiplies each sample's gradient; 0: none is wanted.
  model::StepOutput pass(std::span<const float> inputs, std::span<const std::int64_t> labels, float scale) {
    model::StepOutput output;
    std::vector<float> p(static_cast<std::size_t>(classes_));
    auto width = static_cast<std::size_t>(inputs_);
    for (std::size_t n = 0; n < labels.size(); ++n) {
      const float* x = &inputs[n * width];
      float total = 0;
      for (std::size_t c = 0; c < p.size(); ++c) {
        p[c] = std::inner_product(x, x + width, &weights_[c * width], 0.0f);
        total += p[c] = std::exp(p[c]);
      }
      auto label = static_cast<std::size_t>(labels[n]);
      output.loss_sum -= std::log(p[label] / total);
      output.correct += p[label] == *std::max_element(p.begin(), p.end());
      for (std::size_t c = 0; scale != 0 && c < p.size(); ++c)
        for (std::size_t i = 0; i < width; ++i)
          gradients_[c * width + i] += (p[c] / total - (c == label)) * scale * x[i];
    }
    return output;
  }

  std::int64_t inputs_, classes_;
  model::ModelSpec spec_;
  std::vector<double> start_;
  std::span<float> weights_, gradients_;
};

struct Silent final : train::Observer {
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport&) override {}
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string&) override {}
};

task::Task<void> rank(net::Transport* transport, const plan::Plan* plan) {
  tensor::CpuDevice device(transport->executor());
  comm::Journal journal;
  comm::Runtime runtime{*transport, device, journal, plan->seed};
  data::MemoryStorage files;
  auto datasets = data::open_datasets(plan->data, files);
  SoftmaxRegression model(datasets.train->shape());
  Silent observer;
  auto training = train::train({runtime, model, datasets, files, observer}, {.plan = *plan});
  train::Outcome outcome = co_await training;
  if (transport->rank() == Rank(0))
    std::cout << "test accuracy " << outcome.test.accuracy << " after " << outcome.steps << " steps\n";
}
