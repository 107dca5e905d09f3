#include "model/model.h"

#include <algorithm>
#include <numeric>

namespace taxon::model {

std::int64_t ParameterSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t BufferSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1},
                         [](std::size_t a, std::int64_t b) { return a * static_cast<std::size_t>(b); });
}

std::int64_t ModelSpec::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : parameters) count += parameter.count();
  return count;
}

int ModelSpec::segment_of(int parameter) const {
  for (std::size_t s = 0; s < segments.size(); ++s)
    for (int member : segments[s].parameters)
      if (member == parameter) return static_cast<int>(s);
  return 0;
}

StepOutput& StepOutput::operator+=(const StepOutput& other) {
  loss_sum += other.loss_sum;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  return *this;
}

const FactorSlot* Binding::factors_of(std::size_t slot) const {
  const auto found = std::find_if(factor_slots.begin(), factor_slots.end(),
                                  [slot](const FactorSlot& factors) { return factors.slot == slot; });
  return found == factor_slots.end() ? nullptr : &*found;
}

Range Binding::gradient(std::size_t slot) const {
  const Range range = layout->slots()[slot].range;
  auto bucket = std::partition_point(buckets.begin(), buckets.end(),
                                     [&](const BucketRange& b) { return b.weights.end() <= range.begin; });
  TAXON_CHECK(bucket != buckets.end(), "slot ", slot, " lies in no bucket");
  return {bucket->gradients.begin + (range.begin - bucket->weights.begin), range.size};
}

}  // namespace taxon::model
