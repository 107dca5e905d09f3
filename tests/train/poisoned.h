#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "model/perceptron.h"
#include "model/staged.h"

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
  Poisoned(const model::PerceptronOptions& options, int rank, std::vector<Poison> poisons, int team = 1)
      : model_(options), rank_(rank), poisons_(std::move(poisons)), team_(team) {}

  model::StepOutput forward_backward(const model::StepInput& input, int from,
                                     tensor::Milestones& marks) override {
    const model::StepInput share = poisoned(input);
    step_ += from == 0;
    return model_.forward_backward(share, from, marks);
  }
  model::Staged* staged() override { return &stages_; }
  int team() const override { return team_; }

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
  /// The same with passes piece by piece.
  class Stages final : public model::Staged {
   public:
    explicit Stages(Poisoned& model) : model_(model), inner_(*model.model_.staged()) {}
    void divide(const model::Division& division) override { inner_.divide(division); }
    const std::vector<model::Piece>& pieces() const override { return inner_.pieces(); }
    void use_weights(std::size_t version) override { inner_.use_weights(version); }
    void begin_step(const model::StepInput& input) override {
      share_ = model_.poisoned(input);
      ++model_.step_;
      inner_.begin_step(share_);
    }
    void forward(int piece, const model::MicroBatch& micro, ConstView input, View output) override {
      inner_.forward(piece, of_share(micro), input, output);
    }
    void backward(int piece, const model::MicroBatch& micro, model::Gradients which,
                  ConstView output_gradient, View input_gradient, bool last,
                  tensor::Milestones& marks) override {
      inner_.backward(piece, of_share(micro), which, output_gradient, input_gradient, last, marks);
    }
    model::StepOutput end_step() override { return inner_.end_step(); }
    void abandon_step() override { inner_.abandon_step(); }
    model::StepOutput evaluate(int piece, data::Inputs inputs, data::Values labels, ConstView input,
                               View output) override {
      return inner_.evaluate(piece, inputs, labels, input, output);
    }

   private:
    model::MicroBatch of_share(model::MicroBatch micro) const {
      micro.step = &share_;
      return micro;
    }
    Poisoned& model_;
    model::Staged& inner_;
    model::StepInput share_;
  };

  model::StepInput poisoned(model::StepInput share) {
    for (const Poison& poison : poisons_) {
      if (poison.step != step_ || (poison.rank >= 0 && poison.rank != rank_)) continue;
      inputs_.assign(share.inputs.parts[0].size(), std::numeric_limits<float>::quiet_NaN());
      share.inputs = inputs_;
      if (poison.what == Poison::What::Nothing) share.inputs = {}, share.labels = {};
    }
    return share;
  }

  model::Perceptron model_;
  Stages stages_{*this};
  const int rank_;
  const std::vector<Poison> poisons_;
  const int team_;
  std::int64_t step_ = 0;
  std::vector<float> inputs_;
};

}  // namespace taxon::test
