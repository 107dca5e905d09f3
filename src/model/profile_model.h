#pragma once

#include "model/model.h"
#include "model/progress.h"
#include "model/staged.h"
#include "plan/profile.h"

namespace taxon::model {

/// What a profile knows of its model. Costs are seconds or operations of one sample.
ModelSpec spec_of(const plan::ModelProfile& profile);
/// The order in which gradients complete, as Model::gradient_order() gives it.
std::vector<int> gradient_order_of(const plan::ModelProfile& profile, const ModelSpec& spec);

/// A model that has the shape and the costs of another and learns nothing: its weights are zero and stay so,
/// and so are its gradients. For simulations, which don't run it; where it runs, its passes take no time, and
/// what leaves its stages is zero.
class ProfileModel final : public Model {
 public:
  /// `order`: as gradient_order() returns it.
  ProfileModel(ModelSpec spec, std::vector<int> order);
  const ModelSpec& spec() const override { return spec_; }
  Staged* staged() override;
  std::vector<int> gradient_order(data::Inputs, data::Values) override { return order_; }
  void bind(const Binding& binding) override;
  void unbind() override { binding_ = {}; }
  void forward(const StepInput&, int) override {}
  StepOutput forward_backward(const StepInput& input, int from, tensor::Milestones& marks) override;
  StepOutput evaluate(data::Inputs, data::Values) override { return {}; }
  std::vector<double> buffers() const override;
  void set_buffers(std::span<const double>) override {}
  std::vector<double> parameters() const override;
  void set_parameters(std::span<const double>) override {}
  std::vector<std::byte> random_state() const override { return {}; }
  void set_random_state(ConstView) override {}
  CopyCount copies() const override { return {}; }
  std::vector<GradientTransfer> crossings() const override { return {}; }

 private:
  class Stages;

  /// Zeroes them, of segments [from, until).
  void give_gradients(std::size_t gradients, int from, int until, tensor::Milestones& marks);

  ModelSpec spec_;
  std::vector<int> order_;
  Binding binding_;
  Progress progress_;
  int left_ = 0;  // segments of the step whose backward pass is to come; 0: it has not begun
  std::unique_ptr<Staged> stages_;
};

}  // namespace taxon::model
