#pragma once

#include "data/dataset.h"

namespace taxon::data {

/// Samples in memory, as they are.
class NumberDataset final : public Dataset {
 public:
  /// REQUIRES: as many elements of each part as the shape says of so many samples.
  NumberDataset(SampleShape shape, Samples samples);
  std::int64_t size() const override { return size_; }
  const SampleShape& shape() const override { return shape_; }
  void read_parts(std::optional<std::int64_t> epoch, std::span<const std::int64_t> indices,
                  const Rooms& rooms) const override;

 private:
  const SampleShape shape_;
  const Samples samples_;
  const std::int64_t size_;
};

}  // namespace taxon::data
