#pragma once

#include <vector>

#include "data/dataset.h"

namespace taxon::data {

/// Labelled numbers in memory, as they are.
class NumberDataset final : public Dataset {
 public:
  /// REQUIRES: as many values as labels times elements of the shape.
  NumberDataset(SampleShape shape, std::vector<float> values, std::vector<std::int64_t> labels);
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override;

 private:
  SampleShape shape_;
  std::vector<float> values_;
  std::vector<std::int64_t> labels_;
};

}  // namespace taxon::data
