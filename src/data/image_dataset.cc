#include "data/image_dataset.h"

namespace taxon::data {

ImageDataset::ImageDataset(Content content, const plan::DataPlan& plan)
    : content_(std::move(content)),
      size_(static_cast<std::int64_t>(content_.labels.size())),
      scale_(static_cast<float>(1 / (255 * plan.deviation))),
      shift_(static_cast<float>(-plan.mean / plan.deviation)) {}

void ImageDataset::read(std::span<const std::int64_t> indices, std::span<float> inputs,
                        std::span<std::int64_t> labels) const {
  auto elements = static_cast<std::size_t>(content_.shape.elements());
  TAXON_CHECK(inputs.size() == indices.size() * elements && labels.size() == indices.size());
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(content_.bytes.data() + content_.offset);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TAXON_CHECK(indices[i] >= 0 && indices[i] < size_, "index ", indices[i], " of ", size_);
    auto index = static_cast<std::size_t>(indices[i]);
    const std::uint8_t* __restrict from = pixels + index * elements;
    float* __restrict to = inputs.data() + i * elements;
    for (std::size_t k = 0; k < elements; ++k)
      to[k] = static_cast<float>(static_cast<int>(from[k])) * scale_ + shift_;
    labels[i] = content_.labels[index];
  }
}

}  // namespace taxon::data
