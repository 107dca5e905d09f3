#pragma once

#include <span>
#include <vector>

#include "data/dataset.h"

namespace taxon::data {

/// Labelled images of unsigned bytes in memory, normalised when they are read: (pixel / 255 - mean) /
/// deviation.
class ImageDataset final : public Dataset {
 public:
  struct Content {
    SampleShape shape;
    std::vector<std::byte> bytes;  // the pixels begin at `offset`
    std::size_t offset = 0;
    std::vector<std::int32_t> labels;
  };
  ImageDataset(Content content, const plan::DataPlan& plan);
  std::int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return content_.shape; }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override;

 private:
  Content content_;
  std::int64_t size_;
  float scale_, shift_;  // pixel * scale + shift
};

}  // namespace taxon::data
