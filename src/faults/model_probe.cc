#include "faults/model_probe.h"

#include <xxhash.h>

namespace taxon::faults {

void ModelProbe::bind(const model::Binding& binding) {
  binding_ = binding;
  inner_->bind(binding);
}

/// Of the parameters: what lies between them in the arena means nothing.
std::uint64_t ModelProbe::hash() const {
  std::uint64_t hash = 0;
  for (const tensor::Slot& slot : binding_.layout->slots()) {
    View bytes = binding_.weights->bytes(slot.range);
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

model::StepOutput ModelProbe::forward_backward(const model::StepInput& input, int from,
                                               tensor::Milestones& marks) {
  const auto& slots = binding_.layout->slots();
  if (observations_.weights.empty())
    for (const tensor::Slot& slot : slots) observations_.before += sum_of(*binding_.weights, slot.range);
  if (!in_pieces_) observations_.weights.push_back(hash());
  const bool whole = from == 0 && !in_pieces_;
  in_pieces_ = from > 0;
  model::StepOutput output = inner_->forward_backward(input, from, marks);
  if (whole) {
    double sum = 0;
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
      sum += sum_of(*binding_.gradients[input.gradients], binding_.gradient(slot));
    observations_.gradients.push_back(sum);
  }
  return output;
}

}  // namespace taxon::faults
