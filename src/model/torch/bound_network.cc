#include "model/torch/bound_network.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace taxon::model {
namespace {

/// Labels among the `among` likeliest classes.
std::int64_t count_among(const at::Tensor& logits, const at::Tensor& labels, int among) {
  const at::Tensor seen = logits.detach();
  const at::Tensor hits =
      among == 1 ? seen.argmax(1).eq(labels) : std::get<1>(seen.topk(among, 1)).eq(labels.unsqueeze(1));
  return hits.sum().item<std::int64_t>();
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

at::Tensor BoundNetwork::zeros(std::int64_t samples) const {
  std::vector<std::int64_t> sizes = shape.input;
  sizes.insert(sizes.begin(), samples);
  return arranged(at::zeros(sizes, shape.input_type == DType::Int64 ? at::kLong : compute));
}

at::Tensor BoundNetwork::arranged(const at::Tensor& inputs) const {
  if (format != at::MemoryFormat::ChannelsLast || inputs.dim() != 4) return inputs;
  // Of one channel both orders are one, which only its strides can tell the layers.
  if (inputs.size(1) == 1) return inputs.as_strided(inputs.sizes(), {inputs.stride(0), 1, inputs.size(3), 1});
  return inputs.contiguous(format);
}

at::Tensor BoundNetwork::checked_logits(const at::Tensor& outputs, std::int64_t samples) const {
  std::vector<std::int64_t> wanted = {samples};
  wanted.insert(wanted.end(), shape.target.begin(), shape.target.end());
  wanted.push_back(shape.classes);
  if (outputs.sizes() != at::IntArrayRef(wanted) || !outputs.is_floating_point())
    throw Error(
        ErrorKind::Data,
        fmt::format("model {} must map a batch of {} to logits of shape [{}], but gave [{}] of type {}", name,
                    samples, fmt::join(wanted, ", "), fmt::join(outputs.sizes().vec(), ", "),
                    c10::toString(outputs.scalar_type())));
  return outputs.reshape({-1, shape.classes});
}

// from_blob has no const form; nobody writes, since neither tensor is handed to an in-place operation.

at::Tensor BoundNetwork::inputs_of(data::Inputs inputs, Range samples) const {
  const auto elements = static_cast<std::size_t>(shape.elements());
  const bool are_tokens = shape.input_type == DType::Int64;
  const std::size_t size = are_tokens ? inputs.tokens.size() : inputs.numbers.size();
  TAXON_CHECK(size >= samples.end() * elements, size, " values for ", samples.end(), " samples");
  std::vector<std::int64_t> sizes = shape.input;
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(samples.size));
  if (are_tokens) {
    auto* tokens = const_cast<std::int64_t*>(inputs.tokens.data() + samples.begin * elements);
    return at::from_blob(tokens, sizes, at::kLong);
  }
  auto* values = const_cast<float*>(inputs.numbers.data() + samples.begin * elements);
  return arranged(at::from_blob(values, sizes, at::kFloat).to(compute));
}

at::Tensor BoundNetwork::labels_of(std::span<const std::int64_t> labels, Range samples) const {
  const auto targets = static_cast<std::size_t>(shape.targets());
  TAXON_CHECK(labels.size() >= samples.end() * targets, labels.size(), " labels for ", samples.end());
  auto* classes = const_cast<std::int64_t*>(labels.data() + samples.begin * targets);
  return at::from_blob(classes, {static_cast<std::int64_t>(samples.size * targets)}, at::kLong);
}

BoundNetwork::Loss BoundNetwork::loss(at::Tensor logits, const at::Tensor& labels) const {
  if (logits.scalar_type() == at::kBFloat16) logits = logits.to(at::kFloat);
  const Task& task = tensors->spec().task;
  Loss loss;
  loss.sum = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, /*ignore_index=*/-100,
                                    at::GradMode::is_enabled() ? task.label_smoothing : 0);
  for (std::size_t i = 0; i < task.counts(); ++i) loss.counts[i] = count_among(logits, labels, task.among[i]);
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

}  // namespace taxon::model
