#pragma once

#include <memory>
#include <utility>

#include "model/model.h"
#include "model/staged.h"

namespace taxon::model {

/// A model that does everything by another: for those that do a part of it differently. It has no passes
/// piece by piece: whoever changes those of whole steps decides what becomes of these.
class ForwardingModel : public Model {
 public:
  explicit ForwardingModel(std::unique_ptr<Model> inner) : inner_(std::move(inner)) {}

  const ModelSpec& spec() const override { return inner_->spec(); }
  int team() const override { return inner_->team(); }
  std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) override {
    return inner_->gradient_order(inputs, labels);
  }
  void bind(const Binding& binding) override { inner_->bind(binding); }
  void unbind() override { inner_->unbind(); }
  void forward(const StepInput& input, int until) override { inner_->forward(input, until); }
  void forward_rows(const StepInput& input, int segment, std::int64_t rows) override {
    inner_->forward_rows(input, segment, rows);
  }
  StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) override {
    return inner_->forward_backward(input, from, marks);
  }
  StepOutput evaluate(data::Inputs inputs, data::Values labels) override {
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
  CopyCount copies() const override { return inner_->copies(); }
  std::vector<GradientTransfer> crossings() const override { return inner_->crossings(); }

 protected:
  Model& inner() const { return *inner_; }

 private:
  std::unique_ptr<Model> inner_;
};

/// The same of passes piece by piece. `inner` outlives it.
class ForwardingStages : public Staged {
 public:
  explicit ForwardingStages(Staged& inner) : inner_(inner) {}

  void divide(const Division& division) override { inner_.divide(division); }
  const std::vector<Piece>& pieces() const override { return inner_.pieces(); }
  std::string account() const override { return inner_.account(); }
  void begin_step(const StepInput& input) override { inner_.begin_step(input); }
  void use_weights(std::size_t version) override { inner_.use_weights(version); }
  void begin_forward(int piece, const MicroBatch& micro, ConstView input, std::size_t until) override {
    inner_.begin_forward(piece, micro, input, until);
  }
  void forward(int piece, const MicroBatch& micro, ConstView input, View output) override {
    inner_.forward(piece, micro, input, output);
  }
  void backward(int piece, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                View input_gradient, bool last, tensor::Milestones& marks) override {
    inner_.backward(piece, micro, which, output_gradient, input_gradient, last, marks);
  }
  StepOutput end_step() override { return inner_.end_step(); }
  void abandon_step() override { inner_.abandon_step(); }
  StepOutput evaluate(int piece, data::Inputs inputs, data::Values labels, ConstView input,
                      View output) override {
    return inner_.evaluate(piece, inputs, labels, input, output);
  }

 private:
  Staged& inner_;
};

}  // namespace taxon::model
