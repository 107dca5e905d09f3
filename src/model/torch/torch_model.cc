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

/// Labels among the `among` likeliest classes.
std::int64_t count_among(const at::Tensor& logits, const at::Tensor& labels, int among) {
  const at::Tensor seen = logits.detach();
  const at::Tensor hits =
      among == 1 ? seen.argmax(1).eq(labels) : std::get<1>(seen.topk(among, 1)).eq(labels.unsqueeze(1));
  return hits.sum().item<std::int64_t>();
}

/// Micro-batches that the share is really cut into: none is empty. REQUIRES: the share is not.
std::size_t parts_of(const StepInput& input) {
  return std::min(static_cast<std::size_t>(input.micro_batches), input.samples());
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
    spec.task = task_of(context);
    spec.divisible = static_cast<std::size_t>(stages_) == spec.segments.size() && network_->is_divisible();
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
  const bool are_tokens = shape_.input_type == DType::Int64;
  const at::Tensor inputs = arranged(at::zeros(sizes, are_tokens ? at::kLong : compute_), format_);
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
  std::vector<std::int64_t> wanted = {inputs.size(0)};
  wanted.insert(wanted.end(), shape_.target.begin(), shape_.target.end());
  wanted.push_back(shape_.classes);
  if (logits.sizes() != at::IntArrayRef(wanted) || !logits.is_floating_point())
    throw Error(
        ErrorKind::Data,
        fmt::format("model {} must map a batch of {} to logits of shape [{}], but gave [{}] of type {}",
                    name_, inputs.size(0), fmt::join(wanted, ", "), fmt::join(logits.sizes().vec(), ", "),
                    c10::toString(logits.scalar_type())));
  return logits.reshape({-1, shape_.classes});
}

TorchModel::Batch TorchModel::batch(data::Inputs inputs, std::span<const std::int64_t> labels,
                                    Range samples) const {
  const auto elements = static_cast<std::size_t>(shape_.elements());
  const auto targets = static_cast<std::size_t>(shape_.targets());
  const bool are_tokens = shape_.input_type == DType::Int64;
  const std::size_t size = are_tokens ? inputs.tokens.size() : inputs.numbers.size();
  TAXON_CHECK(size * targets == labels.size() * elements, size, " values for ", labels.size(), " labels");
  std::vector<std::int64_t> sizes = shape_.input;
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(samples.size));
  // from_blob has no const form; nobody writes, since neither tensor is handed to an in-place operation.
  auto* classes = const_cast<std::int64_t*>(labels.data() + samples.begin * targets);
  const at::Tensor wanted =
      at::from_blob(classes, {static_cast<std::int64_t>(samples.size * targets)}, at::kLong);
  if (are_tokens) {
    auto* tokens = const_cast<std::int64_t*>(inputs.tokens.data() + samples.begin * elements);
    return {at::from_blob(tokens, sizes, at::kLong), wanted};
  }
  auto* values = const_cast<float*>(inputs.numbers.data() + samples.begin * elements);
  return {arranged(at::from_blob(values, sizes, at::kFloat).to(compute_), format_), wanted};
}

TorchModel::Loss TorchModel::loss(Pass& pass) {
  const at::Tensor labels = pass.batch.labels;
  at::Tensor logits = this->logits(pass);
  if (logits.scalar_type() == at::kBFloat16) logits = logits.to(at::kFloat);
  const Task& task = spec().task;
  Loss loss;
  loss.sum = at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, /*ignore_index=*/-100,
                                    at::GradMode::is_enabled() ? task.label_smoothing : 0);
  for (std::size_t i = 0; i < task.counts(); ++i) loss.counts[i] = count_among(logits, labels, task.among[i]);
  return loss;
}

std::vector<int> TorchModel::gradient_order(data::Inputs inputs, std::span<const std::int64_t> labels) {
  const RandomStream stream = stream_;
  const std::vector<double> values = buffers();
  std::vector<int> order = call("backward", [&] {
    at::AutoGradMode enable(true);
    network_->set_mode(Mode::Train);
    tensors_->gradients().start_recording();
    try {
      Pass pass = start(batch(inputs, labels, {0, samples_of(labels)}));
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
  const Range share{0, input.samples()};
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
  TAXON_CHECK(input.micro_batches > 0 && input.global_size >= static_cast<std::int64_t>(input.samples()) &&
              input.targets == shape_.targets());
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
  const Range share{0, input.samples()};
  const std::size_t parts = share.size == 0 ? 0 : parts_of(input);
  StepOutput output;
  for (std::size_t i = 0; i < parts; ++i) {
    tensors_->gradients().begin_micro_batch(i + 1 == parts);
    Pass pass =
        i == 0 ? *std::exchange(begun_, {}) : start(batch(input.inputs, input.labels, part(share, parts, i)));
    const Loss loss = this->loss(pass);
    output += {loss.sum.item<double>(), loss.counts};
    tensors_->gradients().backward(loss.sum / input.global_labels());
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
      pieces_->output = {loss.sum.item<double>(), loss.counts};
      pieces_->loss = loss.sum / input.global_labels();
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

StepOutput TorchModel::evaluate(data::Inputs inputs, std::span<const std::int64_t> labels) {
  if (labels.empty()) return {};
  return call("evaluation", [&] {
    at::NoGradGuard no_grad;
    network_->set_mode(Mode::Evaluate);
    Pass pass = start(batch(inputs, labels, {0, samples_of(labels)}));
    const Loss loss = this->loss(pass);
    return StepOutput{loss.sum.item<double>(), loss.counts};
  });
}

std::vector<std::int64_t> TorchModel::write(std::span<const std::int64_t> prompt, int count,
                                            std::uint64_t seed) {
  if (shape_.input_type != DType::Int64 || shape_.target != shape_.input) return {};
  const RandomStream before = stream_;
  stream_ = RandomStream(seed);
  const auto context = static_cast<std::size_t>(shape_.elements());
  std::vector<std::int64_t> text(prompt.begin(), prompt.end());
  call("writing", [&] {
    at::NoGradGuard no_grad;
    network_->set_mode(Mode::Evaluate);
    for (int i = 0; i < count; ++i) {
      // What comes behind the last token is not looked at, whatever it is.
      const std::size_t seen = std::min(text.size(), context);
      std::vector<std::int64_t> window(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
      window.resize(context, 0);
      Pass pass = start({at::from_blob(window.data(), {1, shape_.elements()}, at::kLong), {}});
      const at::Tensor last = logits(pass)[static_cast<std::int64_t>(seen) - 1].to(at::kFloat);
      text.push_back(at::multinomial(last.softmax(0), 1).item<std::int64_t>());
    }
  });
  stream_ = before;
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return text;
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
