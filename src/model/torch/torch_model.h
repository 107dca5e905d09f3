#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/model.h"
#include "model/torch/bound_network.h"

namespace taxon::model {

class StagedNetwork;

/// A network of the framework as a Model.
class TorchModel final : public Model {
 public:
  using Builder = std::function<std::unique_ptr<Network>()>;
  /// Builds the network with the default generator seeded by context.seed, casts it and tries it on the
  /// sample shape. `own_loss` takes the place of the task's; there may be no task then. Throws Error{Usage}
  /// for frozen names that no parameter has, Error{Data} if the network does not map inputs of that shape to
  /// logits, where these make the loss; and what `build` and BoundNetwork::loss() throw.
  TorchModel(std::string name, const ModelContext& context, const Builder& build,
             LossFunction own_loss = nullptr);
  ~TorchModel() override;

  /// Its parameters are the model's.
  Network& network() { return *net_.network; }

  int team() const override { return net_.threads; }
  const ModelSpec& spec() const override { return net_.tensors->spec(); }
  Staged* staged() override;
  std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) override;
  void bind(const Binding& binding) override;
  void unbind() override;
  void forward(const StepInput& input, int until) override;
  void forward_rows(const StepInput& input, int segment, std::int64_t rows) override;
  StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) override;
  StepOutput evaluate(data::Inputs inputs, data::Values labels) override;
  /// Of the last window at most; nothing of a model that is divided. REQUIRES: the prompt is not empty.
  std::vector<std::int64_t> write(std::span<const std::int64_t> prompt, int count,
                                  std::uint64_t seed) override;
  std::vector<double> buffers() const override { return net_.tensors->buffers(); }
  void set_buffers(std::span<const double> values) override { net_.tensors->set_buffers(values); }
  std::vector<double> parameters() const override { return net_.tensors->parameter_values(); }
  void set_parameters(std::span<const double> values) override { net_.tensors->set_parameter_values(values); }
  std::vector<std::byte> random_state() const override { return net_.stream.bytes(); }
  void set_random_state(ConstView state) override { net_.stream.restore(state); }
  CopyCount copies() const override { return net_.tensors->gradients().copies(); }
  std::vector<GradientTransfer> crossings() const override { return net_.tensors->crossings(); }

 private:
  using Batch = BoundNetwork::Batch;

  void probe();
  void check_whole() const;
  bool gives_loss() const { return net_.network->returns() == plan::ModelReturns::Loss; }
  /// One stage's part of a graph that was cut between the stages.
  struct Piece {
    at::Tensor inputs;  // a leaf: its gradient is what the stage before goes on with
    at::Tensor outputs;
  };
  /// How far the forward pass of a batch has come.
  struct Pass {
    Batch batch;
    at::Tensor activations;
    at::Tensor loss;            // that the network gave, if it does: the mean over the batch's samples
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

  static Pass start(Batch batch) { return {batch, batch.inputs.front(), {}, 0, {}}; }
  void advance(Pass& pass, int until);
  /// The next stage of a pass.
  at::Tensor step(Pass& pass, at::Tensor inputs);
  /// All that the network gives beside a loss; undefined: nothing.
  at::Tensor outputs(Pass& pass);
  Loss loss(Pass& pass);
  StepOutput whole_step(const StepInput& input);
  StepOutput piece_of_step(const StepInput& input, int from);
  /// Begins a step, unless forward() has begun it.
  void begin(const StepInput& input);

  BoundNetwork net_;
  std::unique_ptr<StagedNetwork> staged_;
  int stages_ = 1;             // of the network; as many as segments, or one
  std::optional<Pass> begun_;  // of the first micro-batch of a step whose backward pass has not begun
  Binding::Backward backward_ = Binding::Backward::Whole;
  std::optional<Backward> pieces_;  // of a step that comes in pieces, from the first to the last
};

}  // namespace taxon::model
