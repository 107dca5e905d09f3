#include "model/torch/networks/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace taxon::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

/// The slot += or := output^T input, in blocks of rows where they are awaited, so that the first ones travel
/// while the last are computed.
void write_rows(GradientTarget& target, const at::Tensor& output, const at::Tensor& input) {
  const std::int64_t rows = target.slot.size(0), row = target.slot.size(1);
  const auto row_bytes = static_cast<std::size_t>(row * target.slot.element_size());
  std::int64_t begin = 0;
  for (std::int64_t end : target.sink->pieces_are_awaited() ? row_ends(rows, row_bytes) : std::vector{rows}) {
    const std::int64_t count = end - begin;
    at::Tensor part = target.slot.narrow(0, begin, count);
    const at::Tensor left = output.narrow(1, begin, count).t();
    if (target.filled)
      part.addmm_(left, input);
    else
      at::mm_out(part, left, input);
    target.sink->written(target, static_cast<std::size_t>(end * row));
    begin = end;
  }
}

/// y = x w^T + b in blocks of w's rows, up to `rows`: those that are not there yet.
void make_outputs(GradientTarget& target, const at::Tensor& input, const at::Tensor& weight,
                  const at::Tensor& bias, std::int64_t rows) {
  if (!target.begun.defined()) {
    target.begun = at::empty({input.size(0), weight.size(0)}, input.options());
    target.begun_rows = 0;
  }
  for (std::int64_t end : target.row_ends) {
    const std::int64_t begin = target.begun_rows, count = end - begin;
    if (end > rows) break;
    if (count <= 0) continue;
    target.sink->read_rows(target, end, [&] {
      at::Tensor part = target.begun.narrow(1, begin, count);
      at::addmm_out(part, bias.narrow(0, begin, count), input, weight.narrow(0, begin, count).t());
    });
    target.begun_rows = end;
  }
}

/// y = x w^T + b for a matrix x.
struct LinearIntoTarget : torch::autograd::Function<LinearIntoTarget> {
  enum Edge { kInput, kWeight, kBias };

  static Variable forward(AutogradContext* context, const Variable& input, const Variable& weight,
                          const Variable& bias, std::int64_t target) {
    context->save_for_backward({input, weight});
    context->saved_data["target"] = target;
    auto& whole = *reinterpret_cast<GradientTarget*>(target);
    ++whole.uses;
    if (whole.row_ends.size() < 2) return at::addmm(bias, input, weight.t());
    make_outputs(whole, input, weight, bias, weight.size(0));
    return std::exchange(whole.begun, at::Tensor());
  }

  static variable_list backward(AutogradContext* context, const variable_list& outputs) {
    const variable_list saved = context->get_saved_variables();
    const Variable &input = saved[0], &weight = saved[1], &output = outputs[0];
    variable_list gradients(4);  // one per argument of forward; undefined: none, or already in the target
    // Passes that make the inputs' gradient alone leave the weight's for later, and torch::autograd::grad()
    // hands it out.
    if (context->needs_input_grad(kWeight)) {
      auto& target = *reinterpret_cast<GradientTarget*>(context->saved_data["target"].toInt());
      if (target.sink->pass_reaches_parameters()) {
        at::NoGradGuard no_grad;
        add_weight_gradient(target, output, input);
      } else {
        gradients[kWeight] = output.t().mm(input);
      }
    }
    if (context->needs_input_grad(kInput)) gradients[kInput] = output.mm(weight);
    if (context->needs_input_grad(kBias)) gradients[kBias] = output.sum(0);
    return gradients;
  }

  static void add_weight_gradient(GradientTarget& target, const Variable& output, const Variable& input) {
    --target.uses;
    if (target.leaves_factors())
      target.sink->append_factors(target, output, input);
    else
      write_rows(target, output, input);
    target.filled = true;
  }
};

}  // namespace

bool DirectLinearImpl::is_direct(const at::Tensor& input) const {
  return weight_target && weight_target->direct && input.dim() == 2 && bias.defined();
}

void DirectLinearImpl::forward_rows(const at::Tensor& input, std::int64_t rows) const {
  at::NoGradGuard no_grad;
  if (is_direct(input) && weight_target->row_ends.size() > 1)
    make_outputs(*weight_target, input, weight, bias, rows);
}

at::Tensor DirectLinearImpl::forward(const at::Tensor& input) {
  if (!at::GradMode::is_enabled() || !is_direct(input)) return at::linear(input, weight, bias);
  return LinearIntoTarget::apply(input, weight, bias, reinterpret_cast<std::int64_t>(weight_target));
}

bool offer_to_layers(const torch::nn::Module& module, const at::Tensor& parameter, GradientTarget* target) {
  bool any = false;
  const auto offer_to = [&](const torch::nn::Module& layer) {
    const auto* linear = layer.as<DirectLinearImpl>();
    if (!linear || !linear->weight.is_same(parameter)) return;
    linear->weight_target = target;
    any = true;
  };
  offer_to(module);  // which may be no shared pointer's
  for (const auto& layer : module.modules(/*include_self=*/false)) offer_to(*layer);
  return any;
}

at::Tensor BatchNormImpl::forward(const at::Tensor& input) {
  if (is_training()) num_batches_tracked_ += 1;
  bool widen = input.scalar_type() == at::kBFloat16;
  auto wide = [&](const at::Tensor& tensor) { return widen ? tensor.to(at::kFloat) : tensor; };
  // One value of each channel has no variance that the running one could take in.
  const bool learns = !is_training() || input.numel() > input.size(1);
  const at::Tensor none;
  at::Tensor output = at::batch_norm(wide(input), wide(weight_), wide(bias_), learns ? running_mean_ : none,
                                     learns ? running_var_ : none, is_training(), kMomentum, kEpsilon,
                                     /*cudnn_enabled=*/false);
  return widen ? output.to(at::kBFloat16) : output;
}

torch::nn::Conv2d make_conv(std::int64_t in, std::int64_t out, std::int64_t extent, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, extent).stride(stride).padding(extent / 2).bias(false));
}

std::vector<NamedTensor> listed(const torch::OrderedDict<std::string, at::Tensor>& dictionary) {
  std::vector<NamedTensor> list;
  for (const auto& item : dictionary) list.push_back({item.key(), item.value()});
  return list;
}

void require_images(const data::SampleShape& shape, std::string_view model, std::int64_t extent) {
  const auto& input = shape.input;
  if (input.size() == 3 && input[1] >= extent && input[2] >= extent) return;
  throw Error(
      ErrorKind::Usage,
      fmt::format("model {} needs samples of shape [channels, height, width] of at least {} x {}, the "
                  "data set has [{}]; choose another model or data set",
                  model, extent, extent, fmt::join(input, ", ")));
}

}  // namespace taxon::model
