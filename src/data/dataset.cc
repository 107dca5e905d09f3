#include "data/dataset.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/blobs.h"
#include "data/image_dataset.h"

namespace taxon::data {
namespace {

constexpr DatasetRow kRows[] = {{"idx", open_idx}, {"synthetic", open_synthetic}, {"blobs", open_blobs}};

}  // namespace

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
