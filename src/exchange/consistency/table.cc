#include "base/error.h"
#include "base/table_row.h"
#include "exchange/consistency/rule.h"

namespace taxon::exchange {

std::span<const ConsistencyRow> consistency_table() {
  static const ConsistencyRow kRows[] = {
      TAXON_ROW(ConsistencyRow, clocks),
      TAXON_ROW(ConsistencyRow, sampled),
  };
  return kRows;
}

const ConsistencyRow& find_consistency(std::string_view name, std::span<const ConsistencyRow> own) {
  for (std::span<const ConsistencyRow> rows : {own, consistency_table()})
    for (const ConsistencyRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no consistency of servers is called " + std::string(name));
}

std::vector<plan::Catalogue::Consistency> known_consistencies(std::span<const ConsistencyRow> own) {
  std::vector<plan::Catalogue::Consistency> known;
  for (std::span<const ConsistencyRow> rows : {own, consistency_table()})
    for (const ConsistencyRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .bounds = row.bounds,
                       .sentence = std::string(row.sentence),
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                       .rules = row.rules});
  return known;
}

}  // namespace taxon::exchange
