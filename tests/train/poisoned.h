#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "model/forwarding.h"
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
class Poisoned final : public model::ForwardingModel {
 public:
  Poisoned(const model::PerceptronOptions& options, int rank, std::vector<Poison> poisons, int team = 1)
      : ForwardingModel(std::make_unique<model::Perceptron>(options)),
        rank_(rank),
        poisons_(std::move(poisons)),
        team_(team) {}

  model::StepOutput forward_backward(const model::StepInput& input, int from,
                                     tensor::Milestones& marks) override {
    const model::StepInput share = poisoned(input);
    step_ += from == 0;
    return ForwardingModel::forward_backward(share, from, marks);
  }
  model::Staged* staged() override { return &stages_; }
  int team() const override { return team_; }

 private:
  /// The same with passes piece by piece.
  class Stages final : public model::ForwardingStages {
   public:
    explicit Stages(Poisoned& model) : ForwardingStages(*model.inner().staged()), model_(model) {}
    void begin_step(const model::StepInput& input) override {
      share_ = model_.poisoned(input);
      ++model_.step_;
      ForwardingStages::begin_step(share_);
    }
    void forward(int piece, const model::MicroBatch& micro, ConstView input, View output) override {
      ForwardingStages::forward(piece, of_share(micro), input, output);
    }
    void backward(int piece, const model::MicroBatch& micro, model::Gradients which,
                  ConstView output_gradient, View input_gradient, bool last,
                  tensor::Milestones& marks) override {
      ForwardingStages::backward(piece, of_share(micro), which, output_gradient, input_gradient, last, marks);
    }

   private:
    model::MicroBatch of_share(model::MicroBatch micro) const {
      micro.step = &share_;
      return micro;
    }
    Poisoned& model_;
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

  Stages stages_{*this};
  const int rank_;
  const std::vector<Poison> poisons_;
  const int team_;
  std::int64_t step_ = 0;
  std::vector<float> inputs_;
};

}  // namespace taxon::test
