#include "data/number_dataset.h"

#include <algorithm>

#include "base/check.h"

namespace taxon::data {

NumberDataset::NumberDataset(SampleShape shape, std::vector<float> values, std::vector<std::int64_t> labels)
    : shape_(std::move(shape)), values_(std::move(values)), labels_(std::move(labels)) {
  TAXON_CHECK(values_.size() == labels_.size() * static_cast<std::size_t>(shape_.elements()));
}

void NumberDataset::read(std::span<const std::int64_t> indices, std::span<float> inputs,
                         std::span<std::int64_t> labels) const {
  const auto elements = static_cast<std::size_t>(shape_.elements());
  TAXON_CHECK(inputs.size() == indices.size() * elements && labels.size() == indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TAXON_CHECK(indices[i] >= 0 && indices[i] < size(), "index ", indices[i], " of ", size());
    const auto index = static_cast<std::size_t>(indices[i]);
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(index * elements), elements,
                inputs.begin() + static_cast<std::ptrdiff_t>(i * elements));
    labels[i] = labels_[index];
  }
}

}  // namespace taxon::data
