#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "model/division.h"
#include "model/perceptron.h"

namespace taxon::model {

/// Its layers are the segments; a stage has one or both.
class Perceptron::Stages final : public Staged {
 public:
  explicit Stages(Perceptron& model) : model_(model) {}
  void divide(const Division& division) override;
  const std::vector<Piece>& pieces() const override { return pieces_; }
  void begin_step(const StepInput& input) override;
  void forward(int piece, const MicroBatch& micro, ConstView input, View output) override;
  void backward(int piece, const MicroBatch& micro, Gradients which, ConstView output_gradient,
                View input_gradient, bool last, tensor::Milestones& marks) override;
  StepOutput end_step() override;
  void abandon_step() override {
    kept_.clear();
    model_.gradients_.clear();
    model_.layers_ = {};
  }
  StepOutput evaluate(int piece, data::Inputs inputs, std::span<const std::int64_t> labels, ConstView input,
                      View output) override;

 private:
  /// Of a micro-batch's samples in a piece, one after the other.
  struct Kept {
    std::vector<double> activations;
    std::vector<double> logits;  // gradients of them
    std::vector<double> back;    // gradients of activations, in the first layer of what is in front of them
  };
  bool has_hidden(const Piece& piece) const { return piece.inputs == 0; }
  bool has_out(const Piece& piece) const { return piece.outputs == 0; }
  /// Numbers of the compute type.
  std::vector<double> read(ConstView from, std::size_t count) const;
  void write(const std::vector<double>& values, View to) const;

  Perceptron& model_;
  std::vector<Piece> pieces_;
  std::map<std::pair<int, int>, Kept> kept_;  // by piece and micro-batch
  std::size_t arena_ = 0;                     // of the step's gradients
  StepOutput output_;
};

Staged* Perceptron::staged() {
  if (!stages_) stages_ = std::make_unique<Stages>(*this);
  return stages_.get();
}

void Perceptron::Stages::divide(const Division& division) {
  TAXON_CHECK(pieces_.empty() && model_.binding_.layout == nullptr, "divide() comes once, before bind()");
  if (division.members != 1)
    throw Error(ErrorKind::Usage,
                fmt::format("model perceptron has no layers that {} members could divide", division.members));
  HeldStages held = held_stages(model_.spec_, division);
  Values values(model_.values_.size());
  for (int p : held.parameters)
    std::swap(values[static_cast<std::size_t>(p)], model_.values_[static_cast<std::size_t>(p)]);
  model_.values_ = std::move(values);
  model_.held_ = std::move(held.parameters);
  model_.spec_ = std::move(held.spec);
  pieces_ = std::move(held.pieces);
}

void Perceptron::Stages::begin_step(const StepInput& input) {
  model_.load_all();
  model_.gradients_.clear();
  for (const auto& value : model_.values_) model_.gradients_.emplace_back(value.size(), 0.0);
  model_.progress_.begin();
  arena_ = input.gradients;
  output_ = {};
}

std::vector<double> Perceptron::Stages::read(ConstView from, std::size_t count) const {
  return dispatch(model_.binding_.weights->type(), [&](auto zero) {
    using T = decltype(zero);
    const std::span<const T> values = as_span<T>(from);
    TAXON_CHECK(values.size() == count, values.size(), " numbers, not ", count);
    std::vector<double> wide;
    for (const T& value : values) wide.push_back(static_cast<Wide<T>>(value));
    return wide;
  });
}

void Perceptron::Stages::write(const std::vector<double>& values, View to) const {
  dispatch(model_.binding_.weights->type(), [&](auto zero) {
    using T = decltype(zero);
    TAXON_CHECK(to.size() == values.size() * sizeof(T), to.size(), " bytes for ", values.size(), " numbers");
    auto* out = reinterpret_cast<T*>(to.data());
    for (double value : values) *out++ = T(static_cast<Wide<T>>(value));
  });
}

void Perceptron::Stages::forward(int index, const MicroBatch& micro, ConstView input, View output) {
  const Range samples = micro.samples();
  if (samples.size == 0) return;
  const Piece& piece = pieces_[static_cast<std::size_t>(index)];
  const StepInput& step = *micro.step;
  Kept kept;
  kept.activations.resize(samples.size * model_.hidden_);
  if (has_hidden(piece)) {
    for (std::size_t n = 0; n < samples.size; ++n)
      model_.hidden_forward(step.inputs.numbers.data() + (samples.begin + n) * model_.inputs_,
                            &kept.activations[n * model_.hidden_]);
    model_.seen_ += static_cast<double>(samples.size);
  } else {
    kept.activations = read(input, kept.activations.size());
  }
  if (has_out(piece)) {
    kept.logits.resize(samples.size * model_.classes_);
    for (std::size_t n = 0; n < samples.size; ++n)
      model_.out_forward(&kept.activations[n * model_.hidden_], step.labels[samples.begin + n],
                         1.0 / static_cast<double>(step.global_size), output_,
                         &kept.logits[n * model_.classes_]);
  } else {
    write(kept.activations, output);
  }
  kept_[{index, micro.index}] = std::move(kept);
}

void Perceptron::Stages::backward(int index, const MicroBatch& micro, Gradients which,
                                  ConstView output_gradient, View input_gradient, bool last,
                                  tensor::Milestones& marks) {
  const Range samples = micro.samples();
  const Piece& piece = pieces_[static_cast<std::size_t>(index)];
  const std::size_t hidden = model_.hidden_;
  if (samples.size > 0 && which != Gradients::OfWeights) {
    Kept& kept = kept_.at({index, micro.index});
    kept.back.resize(samples.size * hidden);
    if (!has_out(piece)) kept.back = read(output_gradient, samples.size * hidden);
    for (std::size_t n = 0; n < samples.size; ++n) {
      if (has_out(piece)) model_.out_backward(&kept.logits[n * model_.classes_], &kept.back[n * hidden]);
      if (has_hidden(piece)) model_.hidden_backward(&kept.activations[n * hidden], &kept.back[n * hidden]);
    }
    if (!has_hidden(piece)) write(kept.back, input_gradient);
  }
  if (samples.size > 0 && which != Gradients::OfInputs) {
    const Kept& kept = kept_.at({index, micro.index});
    for (std::size_t n = 0; n < samples.size; ++n) {
      if (has_out(piece))
        model_.out_weights(&kept.logits[n * model_.classes_], &kept.activations[n * hidden]);
      if (has_hidden(piece))
        model_.hidden_weights(&kept.back[n * hidden],
                              micro.step->inputs.numbers.data() + (samples.begin + n) * model_.inputs_);
    }
    kept_.erase({index, micro.index});
  }
  if (!last) return;
  model_.store_gradients(arena_, static_cast<int>(piece.segments.begin),
                         static_cast<int>(piece.segments.end()), marks);
  if (piece.stage == pieces_.front().stage) model_.progress_.finish(marks);
}

StepOutput Perceptron::Stages::end_step() {
  TAXON_CHECK(kept_.empty(), kept_.size(), " passes have no backward pass");
  abandon_step();
  return std::exchange(output_, {});
}

StepOutput Perceptron::Stages::evaluate(int index, data::Inputs inputs, std::span<const std::int64_t> labels,
                                        ConstView input, View output) {
  const Piece& piece = pieces_[static_cast<std::size_t>(index)];
  const std::size_t hidden = model_.hidden_;
  model_.load_all();
  std::vector<double> activations(labels.size() * hidden);
  if (!has_hidden(piece)) activations = read(input, activations.size());
  StepOutput sums;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    if (has_hidden(piece))
      model_.hidden_forward(inputs.numbers.data() + n * model_.inputs_, &activations[n * hidden]);
    if (has_out(piece)) model_.out_forward(&activations[n * hidden], labels[n], 0, sums, nullptr);
  }
  if (!has_out(piece)) write(activations, output);
  return sums;
}

}  // namespace taxon::model
