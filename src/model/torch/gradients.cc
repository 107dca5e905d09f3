#include "model/torch/gradients.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "model/torch/framework.h"

namespace taxon::model {

GradientSink::GradientSink(std::vector<at::Tensor> parameters, const std::vector<int>& segments)
    : parameters_(std::move(parameters)), targets_(parameters_.size()) {
  using torch::autograd::variable_list;
  using torch::autograd::utils::LambdaPostHook;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    targets_[i].sink = this;
    targets_[i].segment = segments[i];
    auto node = torch::autograd::impl::grad_accumulator(parameters_[i]);
    const std::uintptr_t hook = node->add_post_hook(std::make_unique<LambdaPostHook>(
        [this, i](const variable_list& outputs, const variable_list& inputs) {
          arrived(i, inputs[0]);
          return outputs;
        }));
    accumulators_.push_back({std::move(node), hook});
  }
}

GradientSink::~GradientSink() {
  // A graph that somebody still holds keeps the accumulators alive longer than their hooks' target.
  for (Accumulator& accumulator : accumulators_) accumulator.node->del_post_hook(accumulator.hook);
}

void GradientSink::bind(const Binding& binding, const std::vector<int>& parameter_of_slot) {
  const auto& slots = binding.layout->slots();
  slots_.assign(binding.gradients.size(), std::vector<at::Tensor>(parameters_.size()));
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto parameter = static_cast<std::size_t>(parameter_of_slot[slot]);
    for (std::size_t a = 0; a < slots_.size(); ++a) {
      const tensor::Arena& arena = *binding.gradients[a];
      slots_[a][parameter] = at::from_blob(arena.bytes(binding.gradient(slot)).data(),
                                           parameters_[parameter].sizes(), scalar_type(arena.type()));
    }
    targets_[parameter].range = slots[slot].range;
  }
  for (const at::Tensor& slot : slots_.front()) TAXON_CHECK(slot.defined());
  bind_factors(binding, parameter_of_slot);
  progress_ = Progress(binding);
}

void GradientSink::bind_factors(const Binding& binding, const std::vector<int>& parameter_of_slot) {
  factors_.clear();
  for (const FactorSlot& slot : binding.factor_slots) {
    const auto parameter = static_cast<std::size_t>(parameter_of_slot[slot.slot]);
    FactorViews views{parameter, {}, {}};
    for (const tensor::Arena* arena : binding.factors) {
      auto view = [&](Range range, std::int64_t columns) {
        return at::from_blob(arena->bytes(range).data(), {static_cast<std::int64_t>(slot.rows), columns},
                             scalar_type(arena->type()));
      };
      views.outputs.push_back(view(slot.outputs, parameters_[parameter].size(0)));
      views.inputs.push_back(view(slot.inputs, parameters_[parameter].size(1)));
    }
    factors_.push_back(std::move(views));
  }
}

void GradientSink::unbind() {
  slots_.clear();
  factors_.clear();
  for (GradientTarget& target : targets_) target.slot = target.outputs = target.inputs = at::Tensor();
}

void GradientSink::start_recording() {
  recording_ = true;
  order_.clear();
}

std::vector<int> GradientSink::stop_recording() {
  recording_ = false;
  return std::exchange(order_, {});
}

void GradientSink::begin_step(std::size_t arena) {
  progress_.begin();
  last_micro_batch_ = false;
  copies_ = {};
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    GradientTarget& target = targets_[i];
    target.slot = slots_[arena][i];
    target.filled = false;
    target.uses = 0;
    target.final_elements = 0;
    target.direct = target.slot.scalar_type() == parameters_[i].scalar_type();
    target.outputs = target.inputs = at::Tensor();
  }
  for (const FactorViews& views : factors_) {
    GradientTarget& target = targets_[views.parameter];
    target.outputs = views.outputs[arena];
    target.inputs = views.inputs[arena];
    target.rows = 0;
    target.direct = true;  // whatever its type: rows are converted
  }
}

void GradientSink::append_factors(GradientTarget& target, const at::Tensor& outputs,
                                  const at::Tensor& inputs) {
  const std::int64_t rows = outputs.size(0);
  TAXON_CHECK(target.rows + rows <= target.outputs.size(0), "more samples than ", target.outputs.size(0));
  target.outputs.narrow(0, target.rows, rows).copy_(outputs);
  target.inputs.narrow(0, target.rows, rows).copy_(inputs);
  target.rows += rows;
  ++copies_.copies;
  copies_.bytes += rows * (target.outputs.size(1) + target.inputs.size(1)) * target.outputs.element_size();
  if (!last_micro_batch_) return;
  end_factors(target);
  written(target, target.range.size);
}

/// Zeroes the rows that the share does not fill.
void GradientSink::end_factors(GradientTarget& target) {
  const std::int64_t left = target.outputs.size(0) - target.rows;
  if (left == 0) return;
  target.outputs.narrow(0, target.rows, left).zero_();
  target.inputs.narrow(0, target.rows, left).zero_();
}

void GradientSink::end_segments(int from) {
  for (GradientTarget& target : targets_) {
    if (target.segment < from) continue;
    if (target.final_elements == 0) {
      if (target.leaves_factors())
        end_factors(target);
      else if (!target.filled)
        target.slot.zero_();
    }
    complete(target, target.range.size);
  }
}

void GradientSink::end_step() {
  end_segments(0);
  progress_.finish(*marks_);
  abandon_step();
}

void GradientSink::abandon_step() {
  marks_ = nullptr;
  recording_ = false;
  for (GradientTarget& target : targets_) target.direct = false;
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void GradientSink::arrived(std::size_t parameter, const at::Tensor& incoming) {
  at::Tensor gradient = std::exchange(parameters_[parameter].mutable_grad(), at::Tensor());
  GradientTarget& target = targets_[parameter];
  if (recording_) {
    if (gradient.defined()) order_.push_back(static_cast<int>(parameter));
    return;
  }
  if (!marks_) return;
  if (gradient.defined()) {
    if (gradient.layout() != at::kStrided) gradient = gradient.to_dense();
    const bool stolen = incoming.layout() == at::kStrided && incoming.data_ptr() == gradient.data_ptr();
    if (!stolen) {  // autograd could not hand over its buffer and copied it
      ++copies_.copies;
      copies_.bytes += static_cast<std::int64_t>(gradient.nbytes());
    }
    store(target, gradient);
  }
  if (last_micro_batch_ && target.filled) complete(target, target.range.size);
}

void GradientSink::store(GradientTarget& target, const at::Tensor& gradient) {
  TAXON_CHECK(!target.leaves_factors(), "a layer that leaves factors has a gradient beside them");
  at::NoGradGuard no_grad;
  if (target.filled)
    target.slot.add_(gradient);
  else
    target.slot.copy_(gradient);
  target.filled = true;
  ++copies_.copies;
  copies_.bytes += static_cast<std::int64_t>(target.slot.nbytes());
}

void GradientSink::written(GradientTarget& target, std::size_t end) {
  if (marks_ && last_micro_batch_ && target.exclusive && target.uses == 0) complete(target, end);
}

void GradientSink::complete(GradientTarget& target, std::size_t end) {
  if (end <= target.final_elements) return;
  Range elements{target.range.begin + target.final_elements, end - target.final_elements};
  target.final_elements = end;
  progress_.completed(elements, *marks_);
}

}  // namespace taxon::model
