#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "model/perceptron.h"

namespace taxon::test {

/// What becomes of one step of a poisoned model. The first is 0.
struct Poison {
  enum class What {
    NotANumber,  // inputs, and so the loss and all gradients
    Nothing,     // no samples: the gradients are zero
  } what = What::NotANumber;
  std::int64_t step = 0;
  int rank = -1;  // -1: every one
};

/// A perceptron whose passes go wrong when they are told to.
class Poisoned final : public model::Model {
 public:
  Poisoned(const model::PerceptronOptions& options, int rank, std::vector<Poison> poisons)
      : model_(options), rank_(rank), poisons_(std::move(poisons)) {}

  model::StepOutput forward_backward(const model::StepInput& input, int from,
                                     tensor::Milestones& marks) override {
    model::StepInput share = input;
    for (const Poison& poison : poisons_) {
      if (poison.step != step_ || (poison.rank >= 0 && poison.rank != rank_)) continue;
      inputs_.assign(share.inputs.parts[0].size(), std::numeric_limits<float>::quiet_NaN());
      share.inputs = inputs_;
      if (poison.what == Poison::What::Nothing) share.inputs = {}, share.labels = {};
    }
    step_ += from == 0;
    return model_.forward_backward(share, from, marks);
  }

  const model::ModelSpec& spec() const override { return model_.spec(); }
  std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) override {
    return model_.gradient_order(inputs, labels);
  }
  void bind(const model::Binding& binding) override { model_.bind(binding); }
  void unbind() override { model_.unbind(); }
  void forward(const model::StepInput& input, int until) override { model_.forward(input, until); }
  model::StepOutput evaluate(data::Inputs inputs, data::Values labels) override {
    return model_.evaluate(inputs, labels);
  }
  std::vector<double> buffers() const override { return model_.buffers(); }
  void set_buffers(std::span<const double> values) override { model_.set_buffers(values); }
  std::vector<double> parameters() const override { return model_.parameters(); }
  void set_parameters(std::span<const double> values) override { model_.set_parameters(values); }
  std::vector<std::byte> random_state() const override { return model_.random_state(); }
  void set_random_state(ConstView state) override { model_.set_random_state(state); }
  model::CopyCount copies() const override { return model_.copies(); }
  std::vector<model::GradientTransfer> crossings() const override { return model_.crossings(); }

 private:
  model::Perceptron model_;
  const int rank_;
  const std::vector<Poison> poisons_;
  std::int64_t step_ = 0;
  std::vector<float> inputs_;
};

}  // namespace taxon::test
