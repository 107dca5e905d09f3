#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/step_owner.h"
#include "model/torch/bound_tensors.h"

namespace torch::nn {
class Module;
}

namespace taxon::model {

class WeightReads;

/// A module whose passes its owner computes, on a thread of its own, as a Model for train(). Its gradients
/// leave bucket by bucket while the owner's backward pass runs.
///
/// Their order is taken to be that in which the module's parameters are registered, backwards, as its passes
/// are unknown before the first step. Each module with parameters of its own is a segment.
class ModuleModel final : public Model {
 public:
  /// The module's floating-point tensors are cast to `compute`. Of the plan `frozen` and `memory_format`
  /// count. Throws as BoundTensors. Module and owner outlive it.
  ModuleModel(torch::nn::Module& module, DType compute, const plan::ModelPlan& plan, StepOwner& owner,
              WeightsAtBegin weights = WeightsAtBegin::Whole);
  ~ModuleModel() override;

  // On the owner's thread, while it has a step:

  /// It has got one: from here on operators wait for weights, if they are to.
  void begin_reads();
  /// `outputs` of a forward pass of the step, in the same memory: the backward pass makes of gradients of a
  /// mean over the share this rank's part of those of a mean over the global batch.
  std::vector<at::Tensor> weighted(const StepInput& step, std::vector<at::Tensor> outputs);
  /// Whether backward passes are the step's last from now on; of the others gradients add up.
  void set_last(bool last) { last_ = last; }
  /// All backward passes are over. Throws Error{Usage} if there was none, or one failed, and as
  /// BoundTensors::require_bound().
  void end_passes();
  /// They will not be.
  void abandon_passes();

  const ModelSpec& spec() const override { return tensors_.spec(); }
  std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) override;
  void bind(const Binding& binding) override;
  void unbind() override;
  void forward(const StepInput& input, int until) override { advance(input, {until}); }
  void forward_rows(const StepInput& input, int segment, std::int64_t rows) override {
    advance(input, {segment, rows});
  }
  StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) override;
  StepOutput evaluate(data::Inputs inputs, data::Values labels) override;
  std::vector<double> buffers() const override { return tensors_.buffers(); }
  void set_buffers(std::span<const double> values) override { tensors_.set_buffers(values); }
  std::vector<double> parameters() const override { return tensors_.parameter_values(); }
  void set_parameters(std::span<const double> values) override { tensors_.set_parameter_values(values); }
  /// The framework's default generator, which dropout draws from.
  std::vector<std::byte> random_state() const override;
  void set_random_state(ConstView state) override;
  CopyCount copies() const override { return tensors_.gradients().copies(); }
  std::vector<GradientTransfer> crossings() const override { return tensors_.crossings(); }

 private:
  friend class WeightedOutputs;
  void offer_targets();
  void need(ReadableWeights weights) noexcept;
  void await_turn();
  void advance(const StepInput& input, ReadableWeights until);
  void begin(const StepInput& input);
  void begin_pass(torch::autograd::Node* root);
  void require_whole_passes() const;

  const torch::nn::Module& module_;  // outlives it
  BoundTensors tensors_;
  StepOwner& owner_;
  const WeightsAtBegin weights_;
  std::unique_ptr<WeightReads> reads_;  // by the owner, from a step's beginning until its backward pass
  // What nodes of a graph that outlives the model find out by that it is gone.
  const std::shared_ptr<ModuleModel* const> alive_ = std::make_shared<ModuleModel* const>(this);
  bool begun_ = false;  // a step whose gradients are not awaited yet
  bool last_ = true;
  std::weak_ptr<bool> pass_;                                      // a backward pass runs
  bool failed_ = false;                                           // one has begun, and not ended
  enum class Passes { None, Some, Last } passes_ = Passes::None;  // of the step
};

}  // namespace taxon::model
