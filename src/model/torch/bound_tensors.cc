#include "model/torch/bound_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "model/frozen.h"
#include "model/torch/framework.h"

namespace taxon::model {
namespace {

at::Tensor view_of(View memory, DType type, const ParameterSpec& parameter) {
  const auto& shape = parameter.shape;
  if (!parameter.channels_last) return at::from_blob(memory.data(), shape, scalar_type(type));
  const std::int64_t row = shape[1] * shape[3];
  return at::from_blob(memory.data(), shape, {row * shape[2], 1, row, shape[1]}, scalar_type(type));
}

/// Each tensor once, under its first name.
std::vector<NamedTensor> distinct(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> list;
  std::set<const at::TensorImpl*> seen;
  for (const NamedTensor& item : tensors)
    if (seen.insert(item.tensor.unsafeGetTensorImpl()).second) list.push_back(item);
  return list;
}

/// Values travel as float64, in which the next whole numbers above are not told apart.
bool is_exact(const at::Tensor& tensor) {
  if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) || tensor.numel() == 0) return true;
  OneThread alone;
  return tensor.detach().to(at::kDouble).abs().max().item<double>() < 0x1p53;
}

/// The narrowest type of a file that has all values of `type`.
DType type_of(at::ScalarType type) {
  if (at::isFloatingType(type))
    return c10::elementSize(type) > sizeof(float) ? DType::Float64 : DType::Float32;
  if (type == at::kByte || type == at::kBool) return DType::UInt8;
  const bool is_narrow = type == at::kInt || c10::elementSize(type) < sizeof(std::int32_t);
  return is_narrow ? DType::Int32 : DType::Int64;
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

std::vector<NamedTensor> as_they_are(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> list;
  for (const NamedTensor& item : tensors) list.push_back({item.name, item.tensor.detach(), item.persistent});
  return list;
}

void cast_floating(const std::vector<NamedTensor>& tensors, at::ScalarType type) {
  for (const NamedTensor& item : tensors)
    if (item.tensor.is_floating_point() && item.tensor.scalar_type() != type) {
      const bool trained = item.tensor.requires_grad();
      at::Tensor tensor = item.tensor;
      tensor.set_data(tensor.detach().to(type));
      tensor.requires_grad_(trained);
    }
}

BoundTensors::BoundTensors(Source source)
    : parameters_(distinct(source.parameters)), buffers_(distinct(source.buffers)) {
  spec_.name = std::move(source.model);
  for (const auto* list : {&parameters_, &buffers_})
    for (const NamedTensor& item : *list)
      if (item.tensor.is_complex())
        throw Error(ErrorKind::Data,
                    fmt::format("model {}: {} is complex, and only real numbers travel; keep "
                                "torch.view_as_real() of it",
                                spec_.name, item.name));
  for (const auto* list : {&parameters_, &buffers_})
    for (const NamedTensor& item : *list)
      if (!is_exact(item.tensor))
        throw Error(ErrorKind::Data,
                    fmt::format("model {}: {} holds whole numbers of 2^53 or more, and only smaller ones "
                                "travel exactly; make such a tensor in forward(), where it is a constant",
                                spec_.name, item.name));
  std::set<const void*> memory;
  for (const NamedTensor& item : parameters_)
    if (item.tensor.numel() > 0 && !memory.insert(item.tensor.data_ptr()).second)
      throw Error(ErrorKind::Data,
                  fmt::format("model {}: parameter {} is a view of another parameter; share the "
                              "parameter itself instead",
                              spec_.name, item.name));
  keep_exact(source);
  freeze(source.frozen);
  describe(source);
  make_sink();
}

BoundTensors::BoundTensors(ModelSpec spec, std::vector<NamedTensor> parameters,
                           std::vector<NamedTensor> buffers, std::vector<NamedTensor> exact)
    : parameters_(std::move(parameters)),
      buffers_(std::move(buffers)),
      exact_(std::move(exact)),
      spec_(std::move(spec)) {
  make_sink();
}

void BoundTensors::keep_exact(const Source& source) {
  if (source.exact.empty()) return;
  exact_ = parameters_;
  for (NamedTensor& item : exact_) {
    const auto place =
        std::find_if(source.parameters.begin(), source.parameters.end(),
                     [&](const NamedTensor& parameter) { return parameter.tensor.is_same(item.tensor); });
    item.tensor = source.exact.at(static_cast<std::size_t>(place - source.parameters.begin())).tensor;
  }
}

void BoundTensors::make_sink() {
  for (std::size_t i = 0; i < spec_.parameters.size(); ++i)
    if (spec_.parameters[i].trainable) trainable_.push_back(static_cast<int>(i));
  std::vector<at::Tensor> trained;
  std::vector<int> segments;
  for (int index : trainable_) {
    trained.push_back(parameters_[static_cast<std::size_t>(index)].tensor);
    segments.push_back(spec_.segment_of(index));
  }
  gradients_ = std::make_unique<GradientSink>(std::move(trained), segments);
}

void BoundTensors::freeze(const std::vector<std::string>& patterns) {
  std::vector<std::string> names;
  for (const NamedTensor& item : parameters_) names.push_back(item.name);
  const std::vector<bool> frozen = find_frozen(spec_.name, names, patterns);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (frozen[i]) at::Tensor(parameters_[i].tensor).requires_grad_(false);
  const auto trained = [](const NamedTensor& item) { return item.tensor.requires_grad(); };
  if (std::none_of(parameters_.begin(), parameters_.end(), trained))
    throw Error(
        patterns.empty() ? ErrorKind::Data : ErrorKind::Usage,
        fmt::format("model {} has no parameter to train; {}", spec_.name,
                    patterns.empty()
                        ? "give it one that requires_grad (a file: export it without torch.jit.freeze)"
                        : "freeze fewer (model.frozen)"));
}

void BoundTensors::describe(const Source& source) {
  for (const std::string& stage : source.stages) spec_.segments.push_back({stage, {}, 0});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    const std::string& name = parameters_[i].name;
    spec_.parameters.push_back({.name = name,
                                .shape = tensor.sizes().vec(),
                                .trainable = tensor.requires_grad(),
                                .channels_last = source.channels_last && tensor.dim() == 4});
    const std::size_t dot = name.find('.');
    std::string owner = dot == std::string::npos ? spec_.name : name.substr(0, dot);
    if (const int stage = source.stage_of ? source.stage_of(name) : -1; stage >= 0)
      owner = source.stages[static_cast<std::size_t>(stage)];
    auto segment = std::find_if(spec_.segments.begin(), spec_.segments.end(),
                                [&](const Segment& s) { return s.name == owner; });
    if (segment == spec_.segments.end()) segment = spec_.segments.insert(segment, Segment{owner, {}, 0});
    segment->parameters.push_back(static_cast<int>(i));
  }
  for (const NamedTensor& item : buffers_)
    spec_.buffers.push_back({.name = item.name,
                             .shape = item.tensor.sizes().vec(),
                             .segment = source.stage_of ? source.stage_of(item.name) : -1,
                             .persistent = item.persistent,
                             .type = type_of(item.tensor.scalar_type()),
                             .is_flags = item.tensor.scalar_type() == at::kBool});
}

void BoundTensors::bind(const Binding& binding) {
  const auto& slots = binding.layout->slots();
  TAXON_CHECK(slots.size() == trainable_.size(), slots.size(), " slots for ", trainable_.size(),
              " parameters");
  const at::ScalarType type = scalar_type(binding.weights->type());
  std::vector<int> order;
  places_.clear();
  at::NoGradGuard no_grad;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto trained = std::find(trainable_.begin(), trainable_.end(), binding.parameters[slot]);
    TAXON_CHECK(trained != trainable_.end(), "slot ", slot, " is not of a trainable parameter");
    order.push_back(static_cast<int>(trained - trainable_.begin()));
    at::Tensor parameter = parameters_[static_cast<std::size_t>(*trained)].tensor;
    TAXON_CHECK(parameter.sizes() == at::IntArrayRef(slots[slot].shape), slots[slot].name);
    TAXON_CHECK(parameter.scalar_type() == type, slots[slot].name, " is of another type than the weights");
    at::Tensor view = view_of(binding.weights->bytes(binding.weight(slot)), binding.weights->type(),
                              spec_.parameters[static_cast<std::size_t>(*trained)]);
    if (!binding.in_parts()) view.copy_(parameter);
    parameter.set_data(view);
    if (!exact_.empty()) exact_[static_cast<std::size_t>(*trained)].tensor = parameter;
    places_.push_back(view.data_ptr());
  }
  for (const tensor::Arena* version : binding.versions) {
    std::vector<at::Tensor>& views = versions_.emplace_back();
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
      views.push_back(view_of(version->bytes(slots[slot].range), version->type(),
                              spec_.parameters[static_cast<std::size_t>(binding.parameters[slot])]));
  }
  gradients_->bind(binding, order);
  bound_ = binding.parameters;
  type_ = binding.weights->type();
  in_parts_ = binding.in_parts();
}

void BoundTensors::require_bound() const {
  for (std::size_t slot = 0; slot < bound_.size(); ++slot) {
    const NamedTensor& parameter = parameters_[static_cast<std::size_t>(bound_[slot])];
    if (parameter.tensor.data_ptr() != places_[slot] || scalar_type(type_) != parameter.tensor.scalar_type())
      throw Error(ErrorKind::Usage,
                  fmt::format("parameter {} was given other memory, or another type, since the run began: "
                              "load weights, and move or convert the module, before that",
                              parameter.name));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!spec_.parameters[i].trainable && parameters_[i].tensor.requires_grad())
      throw Error(
          ErrorKind::Usage,
          fmt::format("parameter {} was frozen when the run began, and is not trained: let it require "
                      "gradients before that",
                      parameters_[i].name));
}

void BoundTensors::use(std::size_t version) {
  if (versions_.empty()) return;  // they are views of what there is
  at::NoGradGuard no_grad;
  for (std::size_t slot = 0; slot < bound_.size(); ++slot)
    at::Tensor(parameters_[static_cast<std::size_t>(bound_[slot])].tensor).set_data(versions_[version][slot]);
}

void BoundTensors::unbind() {
  at::NoGradGuard no_grad;
  for (int parameter : trainable_) {
    at::Tensor tensor = parameters_[static_cast<std::size_t>(parameter)].tensor;
    tensor.set_data(in_parts_ ? at::empty({0}, tensor.options()) : tensor.detach().clone());
  }
  versions_.clear();
  gradients_->unbind();
}

std::vector<GradientTransfer> BoundTensors::crossings() const {
  std::vector<GradientTransfer> crossings = gradients_->crossings();
  for (std::size_t slot = 0; slot < crossings.size(); ++slot)
    crossings[slot].name = spec_.parameters[static_cast<std::size_t>(bound_[slot])].name;
  return crossings;
}

std::vector<double> BoundTensors::buffers() const { return flattened(buffers_); }
void BoundTensors::set_buffers(std::span<const double> values) { assign(buffers_, values); }
std::vector<double> BoundTensors::parameter_values() const {
  return flattened(exact_.empty() ? parameters_ : exact_);
}
void BoundTensors::set_parameter_values(std::span<const double> values) {
  assign(parameters_, values);
  if (!exact_.empty()) assign(exact_, values);
}

}  // namespace taxon::model
