#include "model/profile_model.h"

#include <algorithm>
#include <cstring>

namespace taxon::model {
namespace {

Segment segment_of(const plan::SegmentProfile& profile, double batch) {
  Segment segment;
  segment.name = profile.name;
  segment.forward_flops = profile.forward_flops;
  segment.backward_flops = profile.backward_flops;
  segment.forward_seconds = profile.forward / batch;
  segment.backward_seconds = profile.backward / batch;
  return segment;
}

/// Parameters without a time of their own complete with their segment, whose place in the backward pass is
/// between `begin` and `end`.
GradientTime gradient_time(const plan::ParameterProfile& parameter, double end, double total) {
  if (parameter.gradient <= 0) return {end / total, end / total};
  return {std::min(1.0, parameter.gradient_from / total), std::min(1.0, parameter.gradient / total)};
}

}  // namespace

ModelSpec spec_of(const plan::ModelProfile& profile) {
  ModelSpec spec;
  spec.name = profile.model;
  spec.divisible = profile.divisible;
  spec.task.among = {1};  // what a classification sends beside its gradients
  const double batch = static_cast<double>(std::max<std::int64_t>(1, profile.batch));
  double total = 0;
  for (const plan::SegmentProfile& segment : profile.segments) {
    spec.segments.push_back(segment_of(segment, batch));
    for (const plan::ParameterProfile& parameter : segment.parameters) {
      spec.segments.back().parameters.push_back(static_cast<int>(spec.parameters.size()));
      spec.parameters.push_back({parameter.name, parameter.shape, parameter.trainable, parameter.linear});
    }
    total += segment.backward;
  }
  for (std::size_t b = 0; b < profile.buffers.size(); ++b)
    spec.buffers.push_back({"buffer " + std::to_string(b), {profile.buffers[b]}});
  if (total <= 0) return spec;
  double left = total;  // backward visits the last segment first
  for (const plan::SegmentProfile& segment : profile.segments) {
    for (const plan::ParameterProfile& parameter : segment.parameters)
      spec.gradient_times.push_back(gradient_time(parameter, left, total));
    left -= segment.backward;
  }
  return spec;
}

std::vector<int> gradient_order_of(const plan::ModelProfile& profile, const ModelSpec& spec) {
  std::vector<int> order;
  for (const std::string& name : profile.completion)
    for (std::size_t p = 0; p < spec.parameters.size(); ++p)
      if (spec.parameters[p].name == name) order.push_back(static_cast<int>(p));
  if (!order.empty()) return order;
  for (auto p = static_cast<int>(spec.parameters.size()); p-- > 0;)
    if (spec.parameters[static_cast<std::size_t>(p)].trainable) order.push_back(p);
  return order;
}

ProfileModel::ProfileModel(ModelSpec spec, std::vector<int> order)
    : spec_(std::move(spec)), order_(std::move(order)) {}

void ProfileModel::bind(const Binding& binding) {
  binding_ = binding;
  progress_ = Progress(binding);
  std::memset(binding.weights->bytes().data(), 0, binding.weights->bytes().size());
}

StepOutput ProfileModel::forward_backward(const StepInput& input, int from, tensor::Milestones& marks) {
  TAXON_CHECK(binding_.layout != nullptr, "bind() comes before the first step");
  const tensor::Arena& gradients = *binding_.gradients[input.gradients];
  if (left_ == 0) {
    left_ = static_cast<int>(spec_.segments.size());
    progress_.begin();
  }
  for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
    const int segment = spec_.segment_of(binding_.parameters[slot]);
    if (segment < from || segment >= left_) continue;
    View zeroed = gradients.bytes(binding_.gradient(slot));
    std::memset(zeroed.data(), 0, zeroed.size());
    progress_.completed(binding_.layout->slots()[slot].range, marks);
  }
  left_ = from;
  if (from == 0) progress_.finish(marks);
  return {};
}

std::vector<double> ProfileModel::buffers() const {
  std::size_t count = 0;
  for (const BufferSpec& buffer : spec_.buffers) count += buffer.count();
  return std::vector<double>(count);
}

std::vector<double> ProfileModel::parameters() const {
  return std::vector<double>(static_cast<std::size_t>(spec_.parameter_count()));
}

}  // namespace taxon::model
