#include "faults/model_probe.h"

#include <xxhash.h>

namespace taxon::faults {

void ModelProbe::bind(const model::Binding& binding) {
  binding_ = binding;
  ForwardingModel::bind(binding);
}

/// Of the parameters: what lies between them in the arena means nothing.
std::uint64_t ModelProbe::hash(std::uint64_t hash, Range segments) const {
  for (std::size_t slot = 0; slot < binding_.parameters.size(); ++slot) {
    const auto segment = static_cast<std::size_t>(spec().segment_of(binding_.parameters[slot]));
    if (segment < segments.begin || segment >= segments.end()) continue;
    View bytes = binding_.weights->bytes(binding_.weight(slot));
    hash = XXH64(bytes.data(), bytes.size(), hash);
  }
  return hash;
}

namespace {

double sum_of(const tensor::Arena& arena, Range range) {
  double sum = 0;
  dispatch(arena.type(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>)
      for (T value : arena.values<T>(range)) sum += static_cast<double>(value);
  });
  return sum;
}

}  // namespace

void ModelProbe::note_beginning() {
  if (!observations_.weights.empty()) return;
  for (const tensor::Slot& slot : binding_.layout->slots())
    observations_.before += sum_of(*binding_.weights, slot.range);
}

void ModelProbe::note_weights() {
  note_beginning();
  observations_.weights.push_back(hash(0, {0, spec().segments.size()}));
}

void ModelProbe::note_gradients(std::size_t arena) {
  double sum = 0;
  for (std::size_t slot = 0; slot < binding_.layout->slots().size(); ++slot)
    sum += sum_of(*binding_.gradients[arena], binding_.gradient(slot));
  observations_.gradients.push_back(sum);
}

model::StepOutput ModelProbe::forward_backward(const model::StepInput& input, int from,
                                               tensor::Milestones& marks) {
  if (!in_pieces_) note_weights();
  const bool whole = from == 0 && !in_pieces_;
  in_pieces_ = from > 0;
  model::StepOutput output = ForwardingModel::forward_backward(input, from, marks);
  if (whole) note_gradients(input.gradients);
  return output;
}

/// Of a divided model: the same for its steps, whose pieces have their weights when they first read them.
class ModelProbe::Stages final : public model::ForwardingStages {
 public:
  Stages(ModelProbe& probe, model::Staged& inner) : ForwardingStages(inner), probe_(probe) {}
  void begin_step(const model::StepInput& input) override {
    if (!probe_.binding_.in_parts()) probe_.note_beginning();
    ForwardingStages::begin_step(input);
  }
  void use_weights(std::size_t version) override {
    if (!probe_.binding_.versions.empty()) probe_.binding_.weights = probe_.binding_.versions[version];
    ForwardingStages::use_weights(version);
  }
  void forward(int piece, const model::MicroBatch& micro, ConstView input, View output) override {
    if (micro.index == 0) {
      hash_ = probe_.hash(hash_, pieces()[static_cast<std::size_t>(piece)].segments);
      if (++begun_ == pieces().size()) probe_.observations_.weights.push_back(hash_);
    }
    ForwardingStages::forward(piece, micro, input, output);
  }
  model::StepOutput end_step() override {
    begin_again();
    return ForwardingStages::end_step();
  }
  void abandon_step() override {
    begin_again();
    ForwardingStages::abandon_step();
  }

 private:
  void begin_again() { hash_ = begun_ = 0; }

  ModelProbe& probe_;
  std::uint64_t hash_ = 0;  // of what the step's passes read so far
  std::size_t begun_ = 0;   // pieces that did
};

ModelProbe::ModelProbe(std::unique_ptr<model::Model> inner, Observations& observations)
    : ForwardingModel(std::move(inner)), observations_(observations) {
  if (model::Staged* staged = this->inner().staged()) stages_ = std::make_unique<Stages>(*this, *staged);
}
ModelProbe::~ModelProbe() = default;

model::Staged* ModelProbe::staged() { return stages_.get(); }

}  // namespace taxon::faults
