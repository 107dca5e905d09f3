#include "data/dataset.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/blobs.h"
#include "data/image_dataset.h"

namespace taxon::data {
namespace {

constexpr DatasetRow kRows[] = {{"idx", open_idx}, {"synthetic", open_synthetic}, {"blobs", open_blobs}};

}  // namespace

/// A byte becomes a number.
tensor::Cost Dataset::cost(std::int64_t samples) const {
  return {0, static_cast<std::size_t>(samples * shape().elements()) * (sizeof(float) + 1)};
}

std::span<const DatasetRow> dataset_table() { return kRows; }

Datasets open_datasets(const plan::DataPlan& plan, const Storage& storage) {
  std::vector<std::string_view> names;
  for (const DatasetRow& row : kRows) {
    if (row.name == plan.dataset) return row.open(plan, storage);
    names.push_back(row.name);
  }
  throw Error(ErrorKind::Usage, fmt::format("data.dataset: there is no data set called \"{}\"; known are {}",
                                            plan.dataset, fmt::join(names, ", ")));
}

}  // namespace taxon::data
