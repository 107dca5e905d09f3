#include "model/torch/torch_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/rng.h"
#include "model/torch/builders.h"
#include "model/torch/flops.h"
#include "model/torch/reason.h"

namespace taxon::model {
namespace {

at::MemoryFormat format_of(plan::MemoryFormat format, at::MemoryFormat fastest) {
  if (format == plan::MemoryFormat::ChannelsLast) return at::MemoryFormat::ChannelsLast;
  return format == plan::MemoryFormat::Auto ? fastest : at::MemoryFormat::Contiguous;
}

/// Images in that order, in which layers then go on; anything else as it is.
at::Tensor arranged(const at::Tensor& inputs, at::MemoryFormat format) {
  if (format != at::MemoryFormat::ChannelsLast || inputs.dim() != 4) return inputs;
  // Of one channel both orders are one, which only its strides can tell the layers.
  if (inputs.size(1) == 1) return inputs.as_strided(inputs.sizes(), {inputs.stride(0), 1, inputs.size(3), 1});
  return inputs.contiguous(format);
}

/// Micro-batches that the share is really cut into: none is empty. REQUIRES: the share is not.
std::size_t parts_of(const StepInput& input) {
  return std::min(static_cast<std::size_t>(input.micro_batches), input.labels.size());
}

}  // namespace

template <class Body>
auto TorchModel::call(const char* operation, const Body& body) {
  FrameworkCall state(stream_, threads_);
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(network_->fault(),
                fmt::format("model {} failed in {}: {}", name_, operation, reason_of(error)),
                {.operation = operation});
  }
}

TorchModel::TorchModel(std::string name, const ModelContext& context, const Builder& build)
    : name_(std::move(name)),
      shape_(context.shape),
      compute_(scalar_type(context.compute)),
      stream_(Rng(context.seed, "model", static_cast<std::uint64_t>(context.rank))()) {
  {
    RandomStream initial(context.seed);
    FrameworkCall state(initial, threads_);  // still one: this is not the compute thread, see OneThread
    network_ = build();
  }
  format_ = format_of(context.plan->memory_format, network_->fastest());
  call("set-up", [&] {
    network_->cast(compute_);
    const std::vector<std::string> stages = network_->stages();
    tensors_ = std::make_unique<BoundTensors>(BoundTensors::Source{
        name_, network_->parameters(), network_->buffers(), stages, context.plan->frozen});
    stages_ = std::max(1, static_cast<int>(stages.size()));
    ModelSpec& spec = tensors_->spec();
    spec.divisible = static_cast<std::size_t>(stages_) == spec.segments.size();
    for (std::size_t i = 0; i < spec.parameters.size(); ++i)
      spec.parameters[i].linear = network_->is_linear(tensors_->parameters()[i].tensor);
    probe();
    for (std::size_t i = 0; i < tensors_->trainable().size(); ++i)
      network_->offer(tensors_->parameters()[static_cast<std::size_t>(tensors_->trainable()[i])].tensor,
                      &tensors_->gradients().target(static_cast<int>(i)));
  });
  threads_ = std::max(1, context.threads);
}

void TorchModel::probe() {
  constexpr std::int64_t kSamples = 2;
  at::NoGradGuard no_grad;
  network_->set_mode(Mode::Evaluate);
  std::vector<std::int64_t> sizes = shape_.input;
  sizes.insert(sizes.begin(), kSamples);
  const at::Tensor inputs = arranged(at::zeros(sizes, compute_), format_);
  std::map<const at::TensorImpl*, double> flops;
  try {
    Pass pass = start({inputs, {}});
    flops = count_flops([&] { logits(pass); });
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::Data,
                fmt::format("model {} does not take inputs of shape [batch, {}] in {}: {}", name_,
                            fmt::join(shape_.input, ", "), c10::toString(compute_), reason_of(error)));
  }
  for (Segment& segment : tensors_->spec().segments)
    for (int index : segment.parameters)
      if (auto found = flops.find(
              tensors_->parameters()[static_cast<std::size_t>(index)].tensor.unsafeGetTensorImpl());
          found != flops.end())
        segment.forward_flops += found->second / kSamples;
}

void TorchModel::advance(Pass& pass, int until) {
  const bool cut = backward_ == Binding::Backward::InPieces && at::GradMode::is_enabled();
  for (; pass.stage < until; ++pass.stage) {
    if (!cut) {
      pass.activations = network_->forward(pass.stage, std::move(pass.activations));
      continue;
    }
    at::Tensor inputs = pass.activations.detach();
    if (pass.stage > 0) inputs.requires_grad_(true);
    pass.activations = network_->forward(pass.stage, inputs);
    pass.pieces.push_back({inputs, pass.activations});
  }
}

at::Tensor TorchModel::logits(Pass& pass) {
  const at::Tensor inputs = pass.batch.inputs;
  advance(pass, stages_);
  const at::Tensor logits = std::move(pass.activations);
  const bool fits = logits.dim() == 2 && logits.size(0) == inputs.size(0) &&
                    logits.size(1) == shape_.classes && logits.is_floating_point();
  if (!fits)
    throw Error(
        ErrorKind::Data,
        fmt::format("model {} must map a batch of {} to logits of shape [{}, {}], but gave [{}] of type {}",
                    name_, inputs.size(0), inputs.size(0), shape_.classes,
                    fmt::join(logits.sizes().vec(), ", "), c10::toString(logits.scalar_type())));
  return logits;
}

TorchModel::Batch TorchModel::batch(std::span<const float> inputs, std::span<const std::int64_t> labels,
                                    Range samples) const {
  const auto elements = static_cast<std::size_t>(shape_.elements());
  TAXON_CHECK(inputs.size() == labels.size() * elements, inputs.size(), " values for ", labels.size());
  std::vector<std::int64_t> sizes = shape_.input;
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(samples.size));
  // from_blob has no const form; nobody writes, since neither tensor is handed to an in-place operation.
  auto* values = const_cast<float*>(inputs.data() + samples.begin * elements);
  auto* classes = const_cast<std::int64_t*>(labels.data() + samples.begin);
  return {arranged(at::from_blob(values, sizes, at::kFloat).to(compute_), format_),
          at::from_blob(classes, {static_cast<std::int64_t>(samples.size)}, at::kLong)};
}

TorchModel::Loss TorchModel::loss(Pass& pass) {
  const at::Tensor labels = pass.batch.labels;
  at::Tensor logits = this->logits(pass);
  if (logits.scalar_type() == at::kBFloat16) logits = logits.to(at::kFloat);
  at::Tensor sum = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum);
  return {sum, logits.detach().argmax(1).eq(labels).sum().item<std::int64_t>()};
}

std::vector<int> TorchModel::gradient_order(std::span<const float> inputs,
                                            std::span<const std::int64_t> labels) {
  const RandomStream stream = stream_;
  const std::vector<double> values = buffers();
  std::vector<int> order = call("backward", [&] {
    at::AutoGradMode enable(true);
    network_->set_mode(Mode::Train);
    tensors_->gradients().start_recording();
    try {
      Pass pass = start(batch(inputs, labels, {0, labels.size()}));
      loss(pass).sum.backward();
    } catch (...) {
      tensors_->gradients().stop_recording();
      throw;
    }
    return tensors_->gradients().stop_recording();
  });
  stream_ = stream;
  set_buffers(values);
  std::vector<char> seen(tensors_->trainable().size(), 0);
  for (int& index : order) {
    seen[static_cast<std::size_t>(index)] = 1;
    index = tensors_->trainable()[static_cast<std::size_t>(index)];
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i]) order.push_back(tensors_->trainable()[i]);
  return order;
}

void TorchModel::bind(const Binding& binding) {
  TAXON_CHECK(binding.backward == Binding::Backward::Whole || spec().divisible, spec().name,
              " has one piece");
  tensors_->bind(binding);
  backward_ = binding.backward;
}

void TorchModel::unbind() {
  tensors_->unbind();
  begun_.reset();
  pieces_.reset();
  backward_ = Binding::Backward::Whole;
}

void TorchModel::begin(const StepInput& input) {
  if (begun_) return;
  network_->set_mode(Mode::Train);
  tensors_->gradients().begin_step(input.gradients);
  const Range share{0, input.labels.size()};
  begun_ = start(batch(input.inputs, input.labels, part(share, parts_of(input), 0)));
}

void TorchModel::forward(const StepInput& input, int until) {
  TAXON_CHECK(tensors_->gradients().bound(), "bind() comes before the first step");
  if (input.labels.empty() || static_cast<std::size_t>(stages_) != spec().segments.size()) return;
  call("forward", [&] {
    at::AutoGradMode enable(true);
    begin(input);
    advance(*begun_, until);
  });
}

StepOutput TorchModel::forward_backward(const StepInput& input, int from, tensor::Milestones& marks) {
  TAXON_CHECK(tensors_->gradients().bound(), "bind() comes before the first step");
  TAXON_CHECK(input.micro_batches > 0 && input.global_size >= static_cast<std::int64_t>(input.labels.size()));
  return call("forward and backward", [&] {
    at::AutoGradMode enable(true);
    try {
      if (!pieces_) {
        if (input.labels.empty())
          tensors_->gradients().begin_step(input.gradients);
        else
          begin(input);
      }
      tensors_->gradients().deliver_to(marks);
      const bool whole = backward_ == Binding::Backward::Whole;
      StepOutput output = whole ? whole_step(input) : piece_of_step(input, from);
      if (from == 0)
        tensors_->gradients().end_step();
      else
        tensors_->gradients().end_segments(from);
      return output;
    } catch (...) {
      begun_.reset();
      pieces_.reset();
      tensors_->gradients().abandon_step();
      throw;
    }
  });
}

StepOutput TorchModel::whole_step(const StepInput& input) {
  const Range share{0, input.labels.size()};
  const std::size_t parts = share.size == 0 ? 0 : parts_of(input);
  StepOutput output;
  for (std::size_t i = 0; i < parts; ++i) {
    tensors_->gradients().begin_micro_batch(i + 1 == parts);
    Pass pass =
        i == 0 ? *std::exchange(begun_, {}) : start(batch(input.inputs, input.labels, part(share, parts, i)));
    const Loss loss = this->loss(pass);
    output.loss_sum += loss.sum.item<double>();
    output.correct += loss.correct;
    tensors_->gradients().backward(loss.sum / static_cast<double>(input.global_size));
  }
  return output;
}

StepOutput TorchModel::piece_of_step(const StepInput& input, int from) {
  TAXON_CHECK(input.micro_batches == 1, input.micro_batches, " micro-batches in pieces");
  if (!pieces_) {
    pieces_.emplace();
    tensors_->gradients().begin_micro_batch(true);
    if (begun_) {
      Pass pass = *std::exchange(begun_, {});
      const Loss loss = this->loss(pass);
      pieces_->output = {loss.sum.item<double>(), loss.correct};
      pieces_->loss = loss.sum / static_cast<double>(input.global_size);
      pieces_->pieces = std::move(pass.pieces);
    }
  }
  auto& left = pieces_->pieces;
  while (static_cast<int>(left.size()) > from) {
    const Piece piece = std::move(left.back());
    left.pop_back();
    const at::Tensor gradient = std::exchange(pieces_->gradient, at::Tensor());
    if (pieces_->loss.defined())
      pieces_->gradient =
          tensors_->gradients().backward(std::exchange(pieces_->loss, at::Tensor()), {}, piece.inputs);
    else if (gradient.defined() && piece.outputs.grad_fn())
      pieces_->gradient = tensors_->gradients().backward(piece.outputs, gradient, piece.inputs);
  }
  const StepOutput output = pieces_->output;
  if (from == 0) pieces_.reset();
  return output;
}

StepOutput TorchModel::evaluate(std::span<const float> inputs, std::span<const std::int64_t> labels) {
  if (labels.empty()) return {};
  return call("evaluation", [&] {
    at::NoGradGuard no_grad;
    network_->set_mode(Mode::Evaluate);
    Pass pass = start(batch(inputs, labels, {0, labels.size()}));
    const Loss loss = this->loss(pass);
    return StepOutput{loss.sum.item<double>(), loss.correct};
  });
}

std::unique_ptr<Model> build_mlp(const ModelContext& context) {
  return std::make_unique<TorchModel>("mlp", context, [&] { return make_mlp(context.shape); });
}
std::unique_ptr<Model> build_lenet5(const ModelContext& context) {
  return std::make_unique<TorchModel>("lenet5", context, [&] { return make_lenet5(context.shape); });
}
std::unique_ptr<Model> build_cnn(const ModelContext& context) {
  return std::make_unique<TorchModel>("cnn", context, [&] { return make_cnn(context.shape); });
}
std::unique_ptr<Model> build_resnet18(const ModelContext& context) {
  return std::make_unique<TorchModel>("resnet18", context, [&] { return make_resnet18(context.shape); });
}
std::unique_ptr<Model> build_script(const ModelContext& context) {
  const std::string& path = context.plan->torchscript;
  return std::make_unique<TorchModel>(std::filesystem::path(path).stem().string(), context,
                                      [&] { return load_script(path); });
}
std::unique_ptr<Model> build_exported(const ModelContext& context) {
  const std::string& path = context.plan->name;
  return std::make_unique<TorchModel>(std::filesystem::path(path).stem().string(), context,
                                      [&] { return load_exported(path, context.shape); });
}

}  // namespace taxon::model
