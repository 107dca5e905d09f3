#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/model.h"
#include "model/torch/bound_tensors.h"
#include "model/torch/framework.h"
#include "model/torch/network.h"

namespace taxon::model {

/// A network of the framework as a Model.
class TorchModel final : public Model {
 public:
  using Builder = std::function<std::unique_ptr<Network>()>;
  /// Builds the network with the default generator seeded by context.seed, casts it and tries it on the
  /// sample shape. Throws Error{Usage} for frozen names that no parameter has, Error{Data} if the network
  /// does not map inputs of that shape to logits; and what `build` throws.
  TorchModel(std::string name, const ModelContext& context, const Builder& build);

  /// Its parameters are the model's.
  Network& network() { return *network_; }

  const ModelSpec& spec() const override { return tensors_->spec(); }
  std::vector<int> gradient_order(data::Inputs inputs, std::span<const std::int64_t> labels) override;
  void bind(const Binding& binding) override;
  void unbind() override;
  void forward(const StepInput& input, int until) override;
  StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) override;
  StepOutput evaluate(data::Inputs inputs, std::span<const std::int64_t> labels) override;
  /// Of the last window at most. REQUIRES: the prompt is not empty.
  std::vector<std::int64_t> write(std::span<const std::int64_t> prompt, int count,
                                  std::uint64_t seed) override;
  std::vector<double> buffers() const override { return tensors_->buffers(); }
  void set_buffers(std::span<const double> values) override { tensors_->set_buffers(values); }
  std::vector<double> parameters() const override { return tensors_->parameter_values(); }
  void set_parameters(std::span<const double> values) override { tensors_->set_parameter_values(values); }
  std::vector<std::byte> random_state() const override { return stream_.bytes(); }
  void set_random_state(ConstView state) override { stream_.restore(state); }
  CopyCount copies() const override { return tensors_->gradients().copies(); }
  std::vector<GradientTransfer> crossings() const override { return tensors_->crossings(); }

 private:
  struct Batch {
    at::Tensor inputs;  // of the compute type, or tokens, [samples, sample shape]
    at::Tensor labels;  // of all samples, one after the other
  };
  struct Loss {
    at::Tensor sum;  // over the batch's labels, differentiable
    std::array<std::int64_t, kMostCounts> counts{};
  };

  void probe();
  std::size_t samples_of(std::span<const std::int64_t> labels) const {
    return labels.size() / static_cast<std::size_t>(shape_.targets());
  }
  Batch batch(data::Inputs inputs, std::span<const std::int64_t> labels, Range samples) const;
  /// One stage's part of a graph that was cut between the stages.
  struct Piece {
    at::Tensor inputs;  // a leaf: its gradient is what the stage before goes on with
    at::Tensor outputs;
  };
  /// How far the forward pass of a batch has come.
  struct Pass {
    Batch batch;
    at::Tensor activations;
    int stage = 0;              // the next one
    std::vector<Piece> pieces;  // of the stages so far, if the graph is cut
  };
  /// A backward pass in pieces.
  struct Backward {
    std::vector<Piece> pieces;  // of the stages that are left
    at::Tensor loss;            // until the last stage went through
    at::Tensor gradient;        // of the outputs of the last one that is left
    StepOutput output;
  };

  Pass start(Batch batch) const { return {batch, batch.inputs, 0, {}}; }
  void advance(Pass& pass, int until);
  Loss loss(Pass& pass);
  /// [labels, classes].
  at::Tensor logits(Pass& pass);
  StepOutput whole_step(const StepInput& input);
  StepOutput piece_of_step(const StepInput& input, int from);
  /// Begins a step, unless forward() has begun it.
  void begin(const StepInput& input);
  /// Runs `body` inside a FrameworkCall; the framework's exceptions become Errors.
  template <class Body>
  auto call(const char* operation, const Body& body);

  const std::string name_;
  data::SampleShape shape_;
  at::ScalarType compute_;
  at::MemoryFormat format_ = at::MemoryFormat::Contiguous;  // of inputs
  int threads_ = 1;                                         // of the compute thread
  RandomStream stream_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<BoundTensors> tensors_;  // the network's
  int stages_ = 1;                         // of the network; as many as segments, or one
  std::optional<Pass> begun_;  // of the first micro-batch of a step whose backward pass has not begun
  Binding::Backward backward_ = Binding::Backward::Whole;
  std::optional<Backward> pieces_;  // of a step that comes in pieces, from the first to the last
};

}  // namespace taxon::model
