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

void ModelSpec::find_weights_by_rows(const std::function<bool(int)>& is_linear) {
  for (Segment& segment : segments) {
    if (segment.parameters.size() != 2 || !segment.borrowed.empty()) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const int index = segment.parameters[i];
      const ParameterSpec& weight = parameters[static_cast<std::size_t>(index)];
      const ParameterSpec& bias = parameters[static_cast<std::size_t>(segment.parameters[1 - i])];
      const bool linear = is_linear ? is_linear(index) : weight.linear;
      if (linear && weight.trainable && bias.shape == std::vector{weight.shape.front()})
        segment.weight_by_rows = index;
    }
  }
}

std::vector<int> ModelSpec::borrowers_of(int parameter) const {
  std::vector<int> borrowers;
  for (std::size_t s = 0; s < segments.size(); ++s)
    if (std::count(segments[s].borrowed.begin(), segments[s].borrowed.end(), parameter) > 0)
      borrowers.push_back(static_cast<int>(s));
  return borrowers;
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

namespace {

/// Of a matrix that is taken in blocks of rows.
constexpr std::size_t kRowBytes = 2 << 20;
constexpr std::int64_t kRowMultiple = 64;

/// The bucket of a slot's first element.
const BucketRange& bucket_of(const Binding& binding, std::size_t slot) {
  const std::size_t begin = binding.layout->slots()[slot].range.begin;
  auto bucket = std::partition_point(binding.buckets.begin(), binding.buckets.end(),
                                     [&](const BucketRange& b) { return b.weights.end() <= begin; });
  TAXON_CHECK(bucket != binding.buckets.end(), "slot ", slot, " lies in no bucket");
  return *bucket;
}

}  // namespace

Range Binding::gradient(std::size_t slot) const {
  const BucketRange& bucket = bucket_of(*this, slot);
  const Range range = layout->slots()[slot].range;
  return {bucket.gradients.begin + (range.begin - bucket.weights.begin), range.size};
}

std::vector<std::int64_t> row_ends(std::int64_t rows, std::size_t row_bytes) {
  const auto fit = static_cast<std::int64_t>(kRowBytes / std::max<std::size_t>(1, row_bytes));
  const std::int64_t block = std::max(kRowMultiple, fit / kRowMultiple * kRowMultiple);
  std::vector<std::int64_t> ends;
  for (std::int64_t end = block; end < rows; end += block) ends.push_back(end);
  ends.push_back(rows);
  return ends;
}

std::vector<RowBlock> Binding::row_blocks(std::size_t slot) const {
  const tensor::Slot& whole = layout->slots()[slot];
  const std::int64_t rows = whole.shape.front();
  const std::size_t row = whole.range.size / static_cast<std::size_t>(rows);
  std::vector<RowBlock> blocks;
  std::size_t bucket = 0;
  for (std::int64_t end : row_ends(rows, row * size_of(weights->type()))) {
    while (buckets[bucket].weights.end() < whole.range.begin + static_cast<std::size_t>(end) * row) ++bucket;
    blocks.push_back({bucket, end});
  }
  return blocks;
}

Range Binding::weight(std::size_t slot) const {
  const Range range = layout->slots()[slot].range;
  if (!in_parts()) return range;
  const BucketRange& bucket = bucket_of(*this, slot);
  return {bucket.gathered.begin + (range.begin - bucket.weights.begin), range.size};
}

}  // namespace taxon::model
