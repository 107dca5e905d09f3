#pragma once

#include <memory>

#include "faults/simulated_run.h"

namespace taxon::faults {

/// A model that notes which weights each backward pass reads and what it makes of them; everything else is
/// the inner model's.
class ModelProbe final : public model::Model {
 public:
  ModelProbe(std::unique_ptr<model::Model> inner, Observations& observations);

  ~ModelProbe() override;

  const model::ModelSpec& spec() const override { return inner_->spec(); }
  model::Staged* staged() override;
  std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) override {
    return inner_->gradient_order(inputs, labels);
  }
  void bind(const model::Binding& binding) override;
  void unbind() override {
    binding_ = {};
    inner_->unbind();
  }
  void forward(const model::StepInput& input, int until) override { inner_->forward(input, until); }
  model::StepOutput forward_backward(const model::StepInput& input, int from,
                                     tensor::Milestones& marks) override;
  model::StepOutput evaluate(data::Inputs inputs, data::Values labels) override {
    return inner_->evaluate(inputs, labels);
  }
  std::vector<std::int64_t> write(std::span<const std::int64_t> prompt, int count,
                                  std::uint64_t seed) override {
    return inner_->write(prompt, count, seed);
  }
  std::vector<double> buffers() const override { return inner_->buffers(); }
  void set_buffers(std::span<const double> values) override { inner_->set_buffers(values); }
  std::vector<double> parameters() const override { return inner_->parameters(); }
  void set_parameters(std::span<const double> values) override { inner_->set_parameters(values); }
  std::vector<std::byte> random_state() const override { return inner_->random_state(); }
  void set_random_state(ConstView state) override { inner_->set_random_state(state); }
  model::CopyCount copies() const override { return inner_->copies(); }
  std::vector<model::GradientTransfer> crossings() const override { return inner_->crossings(); }

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

  std::unique_ptr<model::Model> inner_;
  Observations& observations_;
  model::Binding binding_;
  std::unique_ptr<Stages> stages_;
  bool in_pieces_ = false;  // a backward pass has begun and goes on
};

}  // namespace taxon::faults
