#pragma once

#include <vector>

#include "data/dataset.h"

namespace taxon::data {

struct BlobOptions {
  std::int64_t size = 0;  // samples
  std::int64_t inputs = 8;
  int classes = 4;
  std::uint64_t seed = 0;  // of the samples; the centres are the same for all
};

/// Seeded points around one centre per class: a handful of numbers each, for runs whose data must cost
/// nothing.
class Blobs final : public Dataset {
 public:
  explicit Blobs(const BlobOptions& options);
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const SampleShape& shape() const override { return shape_; }
  void read(std::span<const std::int64_t> indices, std::span<float> inputs,
            std::span<std::int64_t> labels) const override;

 private:
  SampleShape shape_;
  std::vector<float> inputs_;
  std::vector<std::int64_t> labels_;
};

}  // namespace taxon::data
