#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/torch/bound_tensors.h"

namespace torch::nn {
class Module;
}

namespace taxon::model {

/// A module whose passes its owner computes, on a thread of its own, as a Model for train(). Its gradients
/// leave bucket by bucket while the owner's backward pass runs.
///
/// Their order is taken to be that in which the module's parameters are registered, backwards, as its passes
/// are unknown before the first step.
class ModuleModel final : public Model {
 public:
  /// Has the owner compute a step; returns when end_passes() was called for it. Called on the compute stream.
  using Owner = std::function<StepOutput(const StepInput& step)>;
  /// The module's floating-point tensors are cast to `compute`. Throws as BoundTensors.
  ModuleModel(torch::nn::Module& module, DType compute, const std::vector<std::string>& frozen, Owner owner);
  ~ModuleModel() override;

  // On the owner's thread, while it has a step:

  /// `outputs` of a forward pass of the step, in the same memory: the backward pass makes of gradients of a
  /// mean over the share this rank's part of those of a mean over the global batch.
  std::vector<at::Tensor> weighted(const StepInput& step, std::vector<at::Tensor> outputs);
  /// Whether backward passes are the step's last from now on; of the others gradients add up.
  void set_last(bool last) { last_ = last; }
  /// All backward passes are over. Throws Error{Usage} if there was none.
  void end_passes();
  /// They will not be.
  void abandon_passes() { tensors_.gradients().abandon_step(); }

  const ModelSpec& spec() const override { return tensors_.spec(); }
  std::vector<int> gradient_order(data::Inputs inputs, data::Values labels) override;
  void bind(const Binding& binding) override { tensors_.bind(binding); }
  void unbind() override { tensors_.unbind(); }
  void forward(const StepInput& input, int until) override;
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
  void begin_pass(torch::autograd::Node* root);

  BoundTensors tensors_;
  const Owner owner_;
  // What nodes of a graph that outlives the model find out by that it is gone.
  const std::shared_ptr<ModuleModel* const> alive_ = std::make_shared<ModuleModel* const>(this);
  bool last_ = true;
  bool in_pass_ = false;                                          // a backward pass runs
  enum class Passes { None, Some, Last } passes_ = Passes::None;  // of the step
};

}  // namespace taxon::model
