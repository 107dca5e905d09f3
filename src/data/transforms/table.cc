#include "base/table_row.h"
#include "data/transform.h"

namespace taxon::data {

std::span<const TransformRow> transform_table() {
  static const TransformRow kRows[] = {
      TAXON_ROW(TransformRow, random_crop),  TAXON_ROW(TransformRow, horizontal_flip),
      TAXON_ROW(TransformRow, resized_crop), TAXON_ROW(TransformRow, cutout),
      TAXON_ROW(TransformRow, normalise),
  };
  return kRows;
}

std::vector<plan::Catalogue::Transform> known_transforms(std::span<const TransformRow> own) {
  std::vector<plan::Catalogue::Transform> known;
  for (std::span<const TransformRow> rows : {own, transform_table()})
    for (const TransformRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .sentence = std::string(row.sentence),
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>()});
  return known;
}

}  // namespace taxon::data
