#include <fmt/format.h>

#include "base/error.h"
#include "base/table_row.h"
#include "data/dataset.h"

namespace taxon::data {

std::span<const DatasetRow> dataset_table() {
  static const DatasetRow kRows[] = {
      TAXON_ROW(DatasetRow, idx),        TAXON_ROW(DatasetRow, cifar),  TAXON_ROW(DatasetRow, images),
      TAXON_ROW(DatasetRow, webdataset), TAXON_ROW(DatasetRow, npy),    TAXON_ROW(DatasetRow, csv),
      TAXON_ROW(DatasetRow, text),       TAXON_ROW(DatasetRow, tokens), TAXON_ROW(DatasetRow, synthetic),
      TAXON_ROW(DatasetRow, blobs),
  };
  return kRows;
}

const DatasetRow& find_dataset(std::string_view name, std::span<const DatasetRow> own) {
  std::vector<std::string_view> names;
  for (std::span<const DatasetRow> rows : {own, dataset_table()})
    for (const DatasetRow& row : rows) {
      if (row.name == name) return row;
      names.push_back(row.name);
    }
  throw Error(ErrorKind::Usage, fmt::format("data.dataset: there is no data set called \"{}\"; known are {}",
                                            name, fmt::join(names, ", ")));
}

std::vector<plan::Catalogue::Dataset> known_datasets(std::span<const DatasetRow> own) {
  std::vector<plan::Catalogue::Dataset> known;
  for (std::span<const DatasetRow> rows : {own, dataset_table()})
    for (const DatasetRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .sentence = std::string(row.sentence),
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                       .rules = row.rules,
                       .gives_tokens = row.gives_tokens});
  return known;
}

}  // namespace taxon::data
