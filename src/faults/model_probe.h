#pragma once

#include <memory>

#include "faults/simulated_run.h"
#include "model/forwarding.h"

namespace taxon::faults {

/// A model that notes which weights each backward pass reads and what it makes of them; everything else is
/// the inner model's.
class ModelProbe final : public model::ForwardingModel {
 public:
  ModelProbe(std::unique_ptr<model::Model> inner, Observations& observations);

  ~ModelProbe() override;

  model::Staged* staged() override;
  void bind(const model::Binding& binding) override;
  void unbind() override {
    binding_ = {};
    ForwardingModel::unbind();
  }
  model::StepOutput forward_backward(const model::StepInput& input, int from,
                                     tensor::Milestones& marks) override;

 private:
  class Stages;
  /// Of the parameters of these segments, after others'.
  std::uint64_t hash(std::uint64_t before, Range segments) const;
  /// The weights before the first step.
  void note_beginning();
  /// The weights as a pass that begins reads them.
  void note_weights();
  /// What it made of them.
  void note_gradients(std::size_t arena);

  Observations& observations_;
  model::Binding binding_;
  std::unique_ptr<Stages> stages_;
  bool in_pieces_ = false;  // a backward pass has begun and goes on
};

}  // namespace taxon::faults
