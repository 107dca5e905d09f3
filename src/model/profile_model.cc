#include "model/profile_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "model/division.h"

namespace taxon::model {
namespace {

Segment segment_of(const plan::SegmentProfile& profile, double batch) {
  Segment segment;
  segment.name = profile.name;
  segment.forward_flops = profile.forward_flops;
  segment.backward_flops = profile.backward_flops;
  segment.forward_seconds = profile.forward / batch;
  segment.backward_seconds = profile.backward / batch;
  segment.outputs = profile.outputs;
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
  spec.members = profile.tensor;
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
  if (profile.divisible) spec.find_weights_by_rows();
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

/// Each stage is a piece whose passes fill their buffers with zeros.
class ProfileModel::Stages final : public Staged {
 public:
  explicit Stages(ProfileModel& model) : model_(model) {}
  void divide(const Division& division) override;
  const std::vector<Piece>& pieces() const override { return pieces_; }
  void begin_step(const StepInput& input) override {
    pieces_left_ = 0;
    gradients_ = input.gradients;
  }
  void use_weights(std::size_t) override {}
  void forward(int, const MicroBatch&, ConstView, View output) override { zero(output); }
  void backward(int index, const MicroBatch&, Gradients, ConstView, View input_gradient, bool last,
                tensor::Milestones& marks) override {
    const Piece& piece = pieces_[static_cast<std::size_t>(index)];
    zero(input_gradient);
    if (!last) return;
    if (pieces_left_ == 0) {
      model_.progress_.begin();
      pieces_left_ = pieces_.size();
    }
    model_.give_gradients(gradients_, static_cast<int>(piece.segments.begin),
                          static_cast<int>(piece.segments.end()), marks);
    if (--pieces_left_ == 0) model_.progress_.finish(marks);
  }
  StepOutput end_step() override { return {}; }
  void abandon_step() override {}
  StepOutput evaluate(int, data::Inputs, data::Values, ConstView, View output) override {
    zero(output);
    return {};
  }

 private:
  static void zero(View view) {
    if (!view.empty()) std::memset(view.data(), 0, view.size());
  }

  ProfileModel& model_;
  std::vector<Piece> pieces_;
  std::size_t gradients_ = 0;
  std::size_t pieces_left_ = 0;  // that have their gradients to give
};

void ProfileModel::Stages::divide(const Division& division) {
  TAXON_CHECK(pieces_.empty() && model_.binding_.layout == nullptr, "divide() comes once, before bind()");
  if (division.members != 1)
    throw Error(
        ErrorKind::Usage,
        fmt::format("a profile does not say what {} members that divide the layers of {} hand on; leave "
                    "the tensor axis out, or simulate with --fidelity exact",
                    division.members, model_.spec_.name));
  HeldStages held = held_stages(model_.spec_, division);
  if (division.segments_apart) {
    const std::vector<const parallel::SplitRow*> rows(model_.spec_.segments.size(),
                                                      &parallel::find_split("none"));
    cut_pieces(held, model_.spec_, division, rows);
  }
  std::vector<int> order;
  for (int parameter : model_.order_)
    if (auto at = std::find(held.parameters.begin(), held.parameters.end(), parameter);
        at != held.parameters.end())
      order.push_back(static_cast<int>(at - held.parameters.begin()));
  model_.order_ = std::move(order);
  model_.spec_ = std::move(held.spec);
  pieces_ = std::move(held.pieces);
}

ProfileModel::ProfileModel(ModelSpec spec, std::vector<int> order)
    : spec_(std::move(spec)), order_(std::move(order)) {}

Staged* ProfileModel::staged() {
  if (!stages_) stages_ = std::make_unique<Stages>(*this);
  return stages_.get();
}

void ProfileModel::bind(const Binding& binding) {
  binding_ = binding;
  progress_ = Progress(binding);
  std::memset(binding.weights->bytes().data(), 0, binding.weights->bytes().size());
}

StepOutput ProfileModel::forward_backward(const StepInput& input, int from, tensor::Milestones& marks) {
  TAXON_CHECK(binding_.layout != nullptr, "bind() comes before the first step");
  if (left_ == 0) {
    left_ = static_cast<int>(spec_.segments.size());
    progress_.begin();
  }
  give_gradients(input.gradients, from, left_, marks);
  left_ = from;
  if (from == 0) progress_.finish(marks);
  return {};
}

void ProfileModel::give_gradients(std::size_t gradients, int from, int until, tensor::Milestones& marks) {
  for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
    const int segment = spec_.segment_of(binding_.parameters[slot]);
    if (segment < from || segment >= until) continue;
    View zeroed = binding_.gradients[gradients]->bytes(binding_.gradient(slot));
    std::memset(zeroed.data(), 0, zeroed.size());
    progress_.completed(binding_.layout->slots()[slot].range, marks);
  }
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
