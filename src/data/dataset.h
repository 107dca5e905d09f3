#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "data/sample_shape.h"
#include "data/storage.h"
#include "plan/plan.h"
#include "tensor/device.h"

namespace taxon::data {

/// Labelled samples, addressable by index. Immutable and safe for concurrent readers.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const SampleShape& shape() const = 0;
  /// Writes the normalised inputs of `indices`, one after the other, and their labels. REQUIRES:
  /// inputs.size() == indices.size() * elements per sample; indices in range.
  virtual void read(std::span<const std::int64_t> indices, std::span<float> inputs,
                    std::span<std::int64_t> labels) const = 0;
  /// What reading so many samples costs, for the virtual world.
  virtual tensor::Cost cost(std::int64_t samples) const;
};

/// The two halves that a plan names.
struct Datasets {
  std::unique_ptr<Dataset> train, test;
};

struct DatasetRow {
  std::string_view name;
  /// Throws Error{Data} that names the file and what is wrong with it: missing, truncated, foreign, halves
  /// that don't fit together.
  Datasets (*open)(const plan::DataPlan&, const Storage&);
};
/// idx: the MNIST family (four IDX files, gzipped or not). synthetic: seeded noise classes, for tests and
/// benchmarks. blobs: a few numbers a sample, for simulations.
std::span<const DatasetRow> dataset_table();
/// Throws Error{Usage} for a name that no row has.
Datasets open_datasets(const plan::DataPlan& plan, const Storage& storage);

}  // namespace taxon::data
