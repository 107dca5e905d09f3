#include "model/torch/bound_network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "data/dataset.h"

namespace taxon::model {
namespace {

/// `samples` of those that lie one after the other.
at::Tensor view_of(const data::Values& values, const std::vector<std::int64_t>& extents, Range samples) {
  std::vector<std::int64_t> sizes = extents;
  const auto size = static_cast<std::size_t>(c10::multiply_integers(sizes));
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(samples.size));
  TAXON_CHECK(values.size() >= samples.end() * size, values.size(), " elements for ", samples.end());
  // from_blob has no const form; nobody writes, since no in-place operation gets it.
  return values.visit([&]<class T>(std::span<const T> elements) {
    return at::from_blob(const_cast<T*>(elements.data() + samples.begin * size), sizes,
                         c10::CppTypeToScalarType<T>::value);
  });
}

/// Losses are not made in 8 bits.
at::Tensor widened(const at::Tensor& outputs) {
  return outputs.scalar_type() == at::kBFloat16 ? outputs.to(at::kFloat) : outputs;
}

}  // namespace

std::int64_t SampleLayout::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

at::Tensor SampleLayout::view(void* memory, std::int64_t samples) const {
  std::vector<std::int64_t> all_sizes = {samples}, all_strides = {elements()};
  all_sizes.insert(all_sizes.end(), sizes.begin(), sizes.end());
  all_strides.insert(all_strides.end(), strides.begin(), strides.end());
  return at::from_blob(memory, all_sizes, all_strides, type);
}

SampleLayout layout_of(const at::Tensor& batch) {
  SampleLayout layout{batch.sizes().slice(1).vec(), {}, batch.scalar_type()};
  const bool apart = batch.is_non_overlapping_and_dense() && batch.stride(0) == layout.elements();
  layout.strides = (apart ? batch : batch.contiguous()).strides().slice(1).vec();
  return layout;
}

SampleLayout resized(const SampleLayout& layout, std::int64_t features) {
  SampleLayout other = layout;
  other.sizes[0] = features;
  std::vector<std::size_t> inner_first(layout.sizes.size());
  std::iota(inner_first.begin(), inner_first.end(), std::size_t{0});
  std::reverse(inner_first.begin(), inner_first.end());
  std::stable_sort(inner_first.begin(), inner_first.end(),
                   [&](std::size_t a, std::size_t b) { return layout.strides[a] < layout.strides[b]; });
  std::int64_t stride = 1;
  for (std::size_t dimension : inner_first) {
    other.strides[dimension] = stride;
    stride *= other.sizes[dimension];
  }
  return other;
}

BoundNetwork::Batch BoundNetwork::zeros(std::int64_t samples) const {
  data::Samples zeros(shape, static_cast<std::size_t>(samples));
  Batch made = batch(zeros.inputs(), zeros.labels, {0, static_cast<std::size_t>(samples)});
  for (at::Tensor& input : made.inputs) input = input.clone();
  made.labels = made.labels.clone();
  return made;
}

std::vector<std::int64_t> BoundNetwork::shape_of_logits(std::int64_t samples) const {
  std::vector<std::int64_t> wanted = {samples};
  wanted.insert(wanted.end(), shape.target.begin(), shape.target.end());
  if (!shape.has_real_targets()) wanted.push_back(shape.classes);
  return wanted;
}

bool BoundNetwork::gives_logits(const at::Tensor& outputs, std::int64_t samples) const {
  if (!outputs.is_floating_point()) return false;
  if (!shape.has_real_targets()) return outputs.sizes() == at::IntArrayRef(shape_of_logits(samples));
  return outputs.dim() > 0 && outputs.size(0) == samples && outputs.numel() == samples * shape.targets();
}

at::Tensor BoundNetwork::checked_logits(const at::Tensor& outputs, std::int64_t samples) const {
  const bool has_classes = !shape.has_real_targets();
  if (!gives_logits(outputs, samples))
    throw Error(
        ErrorKind::Data,
        fmt::format("model {} must map a batch of {} to {} of shape [{}], but gave [{}] of type {}", name,
                    samples, has_classes ? "logits" : "numbers", fmt::join(shape_of_logits(samples), ", "),
                    fmt::join(outputs.sizes().vec(), ", "), c10::toString(outputs.scalar_type())));
  return has_classes ? outputs.reshape({-1, shape.classes}) : outputs.reshape({-1});
}

std::vector<at::Tensor> BoundNetwork::inputs_of(const data::Inputs& inputs, Range samples) const {
  std::vector<at::Tensor> all;
  for (const data::Part& part : shape.inputs()) {
    const at::Tensor values = view_of(inputs.parts.at(all.size()), part.extents, samples);
    all.push_back(values.is_floating_point()          ? arranged(values.to(compute), format)
                  : values.scalar_type() == at::kByte ? values.to(at::kBool)
                                                      : values);
  }
  return all;
}

at::Tensor BoundNetwork::labels_of(const data::Values& labels, Range samples) const {
  return view_of(labels, shape.target, samples).view({-1});
}

at::Tensor BoundNetwork::as_learnt(const at::Tensor& labels, at::ScalarType type) const {
  std::vector<std::int64_t> sizes = shape.target;
  sizes.insert(sizes.begin(), -1);
  return labels.is_floating_point() ? labels.view(sizes).to(type) : labels.view(sizes);
}

Loss BoundNetwork::task_loss(const at::Tensor& outputs, const at::Tensor& labels) const {
  return loss_of(tensors->spec().task, widened(checked_logits(outputs, samples_of(labels))), labels);
}

Loss BoundNetwork::loss(const at::Tensor& outputs, const at::Tensor& labels) const {
  return own_loss ? given_loss(own_mean(outputs, labels), outputs, labels) : task_loss(outputs, labels);
}

at::Tensor BoundNetwork::summary(const at::Tensor& outputs, const at::Tensor& labels) const {
  TAXON_CHECK(!own_loss, "a loss of the program's own needs all logits");
  const ModelSpec& spec = tensors->spec();
  const std::int64_t classes = outputs.size(-1);
  const at::Tensor made =
      summary_of_classes(spec.task, widened(outputs).reshape({-1, classes}), labels, classes * spec.member);
  std::vector<std::int64_t> sizes = outputs.sizes().vec();
  sizes.back() = made.size(1);
  return made.view(sizes).movedim(-1, 1).to(compute);
}

Loss BoundNetwork::loss_of_summaries(const at::Tensor& summaries, const at::Tensor& labels) const {
  const ModelSpec& spec = tensors->spec();
  const std::int64_t numbers = summaries.size(1) / spec.members;
  return model::loss_of_summaries(spec.task,
                                  widened(summaries).movedim(1, -1).reshape({-1, spec.members, numbers}),
                                  labels, shape.classes);
}

at::Tensor BoundNetwork::own_mean(const at::Tensor& outputs, const at::Tensor& labels) const {
  const at::Tensor given = widened(outputs), targets = as_learnt(labels, given.scalar_type());
  try {
    return own_loss(given, targets);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(
        ErrorKind::Usage,
        fmt::format("the loss of model {} fails on outputs [{}] and targets [{}] of type {}: {}", name,
                    fmt::join(given.sizes().vec(), ", "), fmt::join(targets.sizes().vec(), ", "),
                    c10::toString(targets.scalar_type()), reason_of(error)));
  }
}

Loss BoundNetwork::given_loss(const at::Tensor& mean, const at::Tensor& outputs,
                              const at::Tensor& labels) const {
  const auto refuse = [&](const std::string& why) {
    throw Error(own_loss ? ErrorKind::Usage : network->fault(),
                fmt::format("{} must give a loss, one number, {}",
                            own_loss ? "the loss function of model " + name : "model " + name, why));
  };
  if (!mean.defined()) refuse("but gave nothing");
  if (mean.numel() != 1 || !mean.is_floating_point())
    refuse(fmt::format("but gave [{}] of type {}", fmt::join(mean.sizes().vec(), ", "),
                       c10::toString(mean.scalar_type())));
  if (at::GradMode::is_enabled() && !mean.requires_grad())
    refuse("that depends on a parameter that is trained, and this one depends on none");
  Loss loss;
  if (scored && outputs.defined()) {
    at::NoGradGuard no_grad;
    loss = task_loss(outputs, labels);
  }
  // A mean over samples is one over their labels, of which all have as many.
  loss.sum = mean.reshape({}).to(at::kDouble) * labels.numel();
  return loss;
}

void BoundNetwork::offer_targets() {
  ModelSpec& spec = tensors->spec();
  for (std::size_t i = 0; i < spec.parameters.size(); ++i)
    spec.parameters[i].linear = network->is_linear(tensors->parameters()[i].tensor);
  for (std::size_t i = 0; i < tensors->trainable().size(); ++i)
    network->offer(tensors->parameters()[static_cast<std::size_t>(tensors->trainable()[i])].tensor,
                   &tensors->gradients().target(static_cast<int>(i)));
}

void BoundNetwork::withdraw_targets() {
  for (int parameter : tensors->trainable())
    network->offer(tensors->parameters()[static_cast<std::size_t>(parameter)].tensor, nullptr);
}

}  // namespace taxon::model
