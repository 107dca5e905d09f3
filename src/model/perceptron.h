#pragma once

#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "model/progress.h"
#include "model/staged.h"

namespace taxon::model {

/// Of one sample, measured; 0: unknown.
struct PassSeconds {
  double forward = 0, backward = 0;
};

struct PerceptronOptions {
  data::SampleShape shape;
  int hidden = 16;
  std::uint64_t seed = 0;           // initial weights
  std::vector<std::string> frozen;  // as in plan::ModelPlan
  int idle = 0;                     // elements of a parameter that never gets a gradient; 0: there is none
  PassSeconds hidden_seconds, out_seconds;  // through the segments, in the virtual world
  Task task = make_task({}, {});            // of classes
};

/// A two-layer perceptron (tanh, softmax cross-entropy) in plain C++: all that the training loop needs of a
/// model and no framework, so that a simulation runs thousands of times a minute, and under every sanitizer.
/// Parameters complete in the order "out.bias", "out.weight", "hidden.bias", "hidden.weight", "idle". One
/// buffer, "seen", counts this rank's samples. Micro-batches change nothing: there is no activation memory to
/// save. Its two segments are its two layers; members of a tensor axis share the features between them.
class Perceptron final : public Model {
 public:
  /// Throws Error{Usage} for frozen names that no parameter has, and if all are frozen.
  explicit Perceptron(const PerceptronOptions& options);

  const ModelSpec& spec() const override { return spec_; }
  Staged* staged() override;
  std::vector<int> gradient_order(data::Inputs, data::Values) override;
  void bind(const Binding& binding) override;
  void unbind() override;
  void forward(const StepInput& input, int until) override;
  StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) override;
  StepOutput evaluate(data::Inputs inputs, data::Values labels) override;
  std::vector<double> buffers() const override { return std::vector<double>(spec_.buffers.size(), seen_); }
  void set_buffers(std::span<const double> values) override {
    for (double value : values) seen_ = value;
  }
  std::vector<double> parameters() const override;
  void set_parameters(std::span<const double> values) override;
  /// There is no chance in it, but a checkpoint must keep whatever a model gives.
  std::vector<std::byte> random_state() const override { return std::vector<std::byte>(1); }
  void set_random_state(ConstView) override {}
  CopyCount copies() const override { return {static_cast<std::int64_t>(binding_.parameters.size()), 0}; }
  std::vector<GradientTransfer> crossings() const override { return {}; }

 private:
  class Stages;

  enum Index { kHiddenWeight, kHiddenBias, kOutWeight, kOutBias, kIdle };
  /// In which numbers of an arena are handled.
  template <class T>
  using Wide = std::conditional_t<sizeof(T) == 8, double, float>;
  using Values = std::vector<std::vector<double>>;  // by parameter

  /// What a linear layer's gradient is made from: of each sample of a step one row after the other.
  struct Layer {
    std::vector<double> outputs, inputs;
  };

  void freeze(const std::vector<std::string>& patterns);
  void store_factors(std::size_t parameter, const FactorSlot& slot, const tensor::Arena& arena);
  /// To the arenas, where the slots of segments [from, until) are complete by that.
  void store_gradients(std::size_t gradients, int from, int until, tensor::Milestones& marks);
  void load_all();
  void load(int segment);
  void begin_backward(const StepInput& input);
  // Of one sample, by layers:
  void hidden_forward(const float* input, double* activations) const;
  void out_forward(const double* activations, double* logits) const;
  /// Adds to the output; `gradient`, unless null: of the loss times `scale` with regard to the logits, in
  /// place of which it may come.
  void loss(const double* logits, std::int64_t label, double scale, StepOutput& output,
            double* gradient) const;
  /// From the gradient of logits to that of activations, and on to that of what is in front of them.
  void out_backward(const double* gradient, double* back) const;
  void hidden_backward(const double* activations, double* back) const;
  // Add the gradients of weights:
  void out_weights(const double* gradient, const double* activations);
  void hidden_weights(const double* back, const float* input);
  /// Of one sample with these logits.
  void count(const double* logits, std::size_t label, StepOutput& output) const;
  std::size_t held(int parameter) const {
    return static_cast<std::size_t>(held_[static_cast<std::size_t>(parameter)]);
  }

  std::size_t inputs_, hidden_, classes_;
  ModelSpec spec_;
  std::vector<int> held_;  // Index of each of the spec's parameters
  Binding binding_;
  Progress progress_;
  int begun_ = 0;  // segments whose values the step has read
  Values values_;
  Values gradients_;             // of a step that is not over
  std::array<Layer, 2> layers_;  // hidden and out, of it
  StepOutput output_;            // its
  int stored_ = 0;               // segments from this one on have their gradients in the arena
  std::vector<double> activations_, logits_, back_;  // of one sample
  std::unique_ptr<Staged> stages_;
  double seen_ = 0;
};

}  // namespace taxon::model
