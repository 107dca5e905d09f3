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
#include "model/frozen.h"
#include "model/torch/builders.h"
#include "model/torch/flops.h"
#include "model/torch/reason.h"

namespace taxon::model {
namespace {

/// Each tensor once, under its first name.
std::vector<NamedTensor> distinct(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> list;
  std::set<const at::TensorImpl*> seen;
  for (const NamedTensor& item : tensors)
    if (seen.insert(item.tensor.unsafeGetTensorImpl()).second) list.push_back(item);
  return list;
}

std::vector<double> flattened(const std::vector<NamedTensor>& tensors) {
  OneThread alone;
  std::vector<double> values;
  for (const NamedTensor& item : tensors) {
    at::Tensor wide = item.tensor.detach().to(at::kDouble).contiguous();
    values.insert(values.end(), wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel());
  }
  return values;
}

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

void assign(const std::vector<NamedTensor>& tensors, std::span<const double> values) {
  std::size_t count = 0;
  for (const NamedTensor& item : tensors) count += static_cast<std::size_t>(item.tensor.numel());
  TAXON_CHECK(values.size() == count, values.size(), " values for ", count);
  OneThread alone;
  at::NoGradGuard no_grad;
  auto* next = const_cast<double*>(values.data());  // from_blob has no const form; only read
  for (const NamedTensor& item : tensors) {
    at::Tensor target = item.tensor;
    target.copy_(at::from_blob(next, target.sizes(), at::kDouble));
    next += target.numel();
  }
}

}  // namespace

void cast_floating(const std::vector<NamedTensor>& tensors, at::ScalarType type) {
  for (const NamedTensor& item : tensors)
    if (item.tensor.is_floating_point() && item.tensor.scalar_type() != type) {
      const bool trained = item.tensor.requires_grad();
      at::Tensor tensor = item.tensor;
      tensor.set_data(tensor.detach().to(type));
      tensor.requires_grad_(trained);
    }
}

template <class Body>
auto TorchModel::call(const char* operation, const Body& body) {
  FrameworkCall state(stream_, threads_);
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(network_->fault(),
                fmt::format("model {} failed in {}: {}", spec_.name, operation, reason_of(error)),
                {.operation = operation});
  }
}

TorchModel::TorchModel(std::string name, const ModelContext& context, const Builder& build)
    : shape_(context.shape),
      compute_(scalar_type(context.compute)),
      stream_(Rng(context.seed, "model", static_cast<std::uint64_t>(context.rank))()) {
  spec_.name = std::move(name);
  {
    RandomStream initial(context.seed);
    FrameworkCall state(initial, threads_);  // still one: this is not the compute thread, see OneThread
    network_ = build();
  }
  format_ = format_of(context.plan->memory_format, network_->fastest());
  call("set-up", [&] {
    network_->cast(compute_);
    collect_tensors();
    freeze(context.plan->frozen);
    describe();
    probe();
    std::vector<at::Tensor> trained;
    std::vector<int> segments;
    for (int index : trainable_) {
      trained.push_back(parameters_[static_cast<std::size_t>(index)].tensor);
      segments.push_back(spec_.segment_of(index));
    }
    gradients_ = std::make_unique<GradientSink>(std::move(trained), segments);
    for (std::size_t i = 0; i < trainable_.size(); ++i)
      network_->offer(parameters_[static_cast<std::size_t>(trainable_[i])].tensor,
                      &gradients_->target(static_cast<int>(i)));
  });
  threads_ = std::max(1, context.threads);
}

void TorchModel::collect_tensors() {
  parameters_ = distinct(network_->parameters());
  buffers_ = distinct(network_->buffers());
  std::set<const void*> memory;
  for (const NamedTensor& item : parameters_)
    if (item.tensor.numel() > 0 && !memory.insert(item.tensor.data_ptr()).second)
      throw Error(ErrorKind::Data,
                  fmt::format("model {}: parameter {} is a view of another parameter; share the "
                              "parameter itself instead",
                              spec_.name, item.name));
}

void TorchModel::freeze(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const NamedTensor& item : parameters_) names.push_back(item.name);
  const std::vector<bool> frozen = find_frozen(spec_.name, names, patterns);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (frozen[i]) at::Tensor(parameters_[i].tensor).requires_grad_(false);
  const auto trained = [](const NamedTensor& item) { return item.tensor.requires_grad(); };
  if (std::none_of(parameters_.begin(), parameters_.end(), trained))
    throw Error(patterns.empty() ? ErrorKind::Data : ErrorKind::Usage,
                fmt::format("model {} has no parameter to train; {}", spec_.name,
                            patterns.empty() ? "export it without torch.jit.freeze and with requires_grad"
                                             : "freeze fewer (model.frozen)"));
}

void TorchModel::describe() {
  const std::vector<std::string> stages = network_->stages();
  for (const std::string& stage : stages) spec_.segments.push_back({stage, {}, 0});
  stages_ = std::max(1, static_cast<int>(stages.size()));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    const int index = static_cast<int>(i);
    spec_.parameters.push_back(
        {name, tensor.sizes().vec(), tensor.requires_grad(), network_->is_linear(tensor)});
    if (tensor.requires_grad()) trainable_.push_back(index);
    const std::size_t dot = name.find('.');
    const std::string child = dot == std::string::npos ? spec_.name : name.substr(0, dot);
    auto segment = std::find_if(
        spec_.segments.begin(), spec_.segments.end(),
        [&, &name = name](const Segment& s) { return s.name == child || name.starts_with(s.name + "."); });
    if (segment == spec_.segments.end()) segment = spec_.segments.insert(segment, Segment{child, {}, 0});
    segment->parameters.push_back(index);
  }
  for (const auto& [name, tensor] : buffers_) spec_.buffers.push_back({name, tensor.sizes().vec()});
  spec_.divisible = static_cast<std::size_t>(stages_) == spec_.segments.size();
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
                fmt::format("model {} does not take inputs of shape [batch, {}] in {}: {}", spec_.name,
                            fmt::join(shape_.input, ", "), c10::toString(compute_), reason_of(error)));
  }
  for (Segment& segment : spec_.segments)
    for (int index : segment.parameters)
      if (auto found = flops.find(parameters_[static_cast<std::size_t>(index)].tensor.unsafeGetTensorImpl());
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
                    spec_.name, inputs.size(0), inputs.size(0), shape_.classes,
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
    gradients_->start_recording();
    try {
      Pass pass = start(batch(inputs, labels, {0, labels.size()}));
      loss(pass).sum.backward();
    } catch (...) {
      gradients_->stop_recording();
      throw;
    }
    return gradients_->stop_recording();
  });
  stream_ = stream;
  set_buffers(values);
  std::vector<char> seen(trainable_.size(), 0);
  for (int& index : order) {
    seen[static_cast<std::size_t>(index)] = 1;
    index = trainable_[static_cast<std::size_t>(index)];
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i]) order.push_back(trainable_[i]);
  return order;
}

void TorchModel::bind(const Binding& binding) {
  const auto& slots = binding.layout->slots();
  TAXON_CHECK(slots.size() == trainable_.size(), slots.size(), " slots for ", trainable_.size(),
              " parameters");
  TAXON_CHECK(scalar_type(binding.weights->type()) == compute_, "the weights' type must be the compute type");
  std::vector<int> order;
  at::NoGradGuard no_grad;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto trained = std::find(trainable_.begin(), trainable_.end(), binding.parameters[slot]);
    TAXON_CHECK(trained != trainable_.end(), "slot ", slot, " is not of a trainable parameter");
    order.push_back(static_cast<int>(trained - trainable_.begin()));
    at::Tensor parameter = parameters_[static_cast<std::size_t>(*trained)].tensor;
    TAXON_CHECK(parameter.sizes() == at::IntArrayRef(slots[slot].shape), slots[slot].name);
    at::Tensor view =
        at::from_blob(binding.weights->bytes(slots[slot].range).data(), parameter.sizes(), compute_);
    view.copy_(parameter);
    parameter.set_data(view);
  }
  gradients_->bind(binding, order);
  bound_ = binding.parameters;
  TAXON_CHECK(binding.backward == Binding::Backward::Whole || spec_.divisible, spec_.name, " has one piece");
  backward_ = binding.backward;
}

void TorchModel::unbind() {
  at::NoGradGuard no_grad;
  for (int parameter : trainable_) {
    at::Tensor tensor = parameters_[static_cast<std::size_t>(parameter)].tensor;
    tensor.set_data(tensor.detach().clone());
  }
  gradients_->unbind();
  begun_.reset();
  pieces_.reset();
  backward_ = Binding::Backward::Whole;
}

void TorchModel::begin(const StepInput& input) {
  if (begun_) return;
  network_->set_mode(Mode::Train);
  gradients_->begin_step(input.gradients);
  const Range share{0, input.labels.size()};
  begun_ = start(batch(input.inputs, input.labels, part(share, parts_of(input), 0)));
}

void TorchModel::forward(const StepInput& input, int until) {
  TAXON_CHECK(gradients_->bound(), "bind() comes before the first step");
  if (input.labels.empty() || static_cast<std::size_t>(stages_) != spec_.segments.size()) return;
  call("forward", [&] {
    at::AutoGradMode enable(true);
    begin(input);
    advance(*begun_, until);
  });
}

StepOutput TorchModel::forward_backward(const StepInput& input, int from, tensor::Milestones& marks) {
  TAXON_CHECK(gradients_->bound(), "bind() comes before the first step");
  TAXON_CHECK(input.micro_batches > 0 && input.global_size >= static_cast<std::int64_t>(input.labels.size()));
  return call("forward and backward", [&] {
    at::AutoGradMode enable(true);
    try {
      if (!pieces_) {
        if (input.labels.empty())
          gradients_->begin_step(input.gradients);
        else
          begin(input);
      }
      gradients_->deliver_to(marks);
      const bool whole = backward_ == Binding::Backward::Whole;
      StepOutput output = whole ? whole_step(input) : piece_of_step(input, from);
      if (from == 0)
        gradients_->end_step();
      else
        gradients_->end_segments(from);
      return output;
    } catch (...) {
      begun_.reset();
      pieces_.reset();
      gradients_->abandon_step();
      throw;
    }
  });
}

StepOutput TorchModel::whole_step(const StepInput& input) {
  const Range share{0, input.labels.size()};
  const std::size_t parts = share.size == 0 ? 0 : parts_of(input);
  StepOutput output;
  for (std::size_t i = 0; i < parts; ++i) {
    gradients_->begin_micro_batch(i + 1 == parts);
    Pass pass =
        i == 0 ? *std::exchange(begun_, {}) : start(batch(input.inputs, input.labels, part(share, parts, i)));
    const Loss loss = this->loss(pass);
    output.loss_sum += loss.sum.item<double>();
    output.correct += loss.correct;
    gradients_->backward(loss.sum / static_cast<double>(input.global_size));
  }
  return output;
}

StepOutput TorchModel::piece_of_step(const StepInput& input, int from) {
  TAXON_CHECK(input.micro_batches == 1, input.micro_batches, " micro-batches in pieces");
  if (!pieces_) {
    pieces_.emplace();
    gradients_->begin_micro_batch(true);
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
      pieces_->gradient = gradients_->backward(std::exchange(pieces_->loss, at::Tensor()), {}, piece.inputs);
    else if (gradient.defined() && piece.outputs.grad_fn())
      pieces_->gradient = gradients_->backward(piece.outputs, gradient, piece.inputs);
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

std::vector<GradientTransfer> TorchModel::crossings() const {
  std::vector<GradientTransfer> crossings = gradients_->crossings();
  for (std::size_t slot = 0; slot < crossings.size(); ++slot)
    crossings[slot].name = spec_.parameters[static_cast<std::size_t>(bound_[slot])].name;
  return crossings;
}

std::vector<double> TorchModel::buffers() const { return flattened(buffers_); }
void TorchModel::set_buffers(std::span<const double> values) { assign(buffers_, values); }
std::vector<double> TorchModel::parameters() const { return flattened(parameters_); }
void TorchModel::set_parameters(std::span<const double> values) { assign(parameters_, values); }

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

}  // namespace taxon::model
