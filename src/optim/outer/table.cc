#include <algorithm>

#include "base/error.h"
#include "base/table_row.h"
#include "optim/outer/masters.h"

namespace taxon::optim {

void OuterRule::adopt(const tensor::Arena& replica, const tensor::Arena& sum, UpdateRange place) {
  for_master(replica, [&](auto zero) {
    using T = decltype(zero);
    auto from = sum.values<T>({place.sum, place.weights.size});
    std::copy(from.begin(), from.end(), replica.values<T>(place.weights).begin());
  });
}

std::span<const OuterRow> outer_table() {
  static const OuterRow kRules[] = {
      TAXON_ROW(OuterRow, average),        TAXON_ROW(OuterRow, block),
      TAXON_ROW(OuterRow, block_nesterov), TAXON_ROW(OuterRow, outer_momentum),
      TAXON_ROW(OuterRow, outer_nesterov), TAXON_ROW(OuterRow, slowmo),
      TAXON_ROW(OuterRow, elastic),        TAXON_ROW(OuterRow, accumulated),
  };
  return kRules;
}

const OuterRow& find_outer(std::string_view name, std::span<const OuterRow> own) {
  for (std::span<const OuterRow> rows : {own, outer_table()})
    for (const OuterRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no outer rule is called " + std::string(name));
}

std::vector<plan::Catalogue::Outer> known_outer_rules(std::span<const OuterRow> own) {
  std::vector<plan::Catalogue::Outer> known;
  for (std::span<const OuterRow> rows : {own, outer_table()})
    for (const OuterRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .replicas = std::string(row.replicas),
                       .keeps_centre = row.keeps_centre,
                       .sentence = std::string(row.sentence),
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                       .rules = row.rules});
  return known;
}

}  // namespace taxon::optim
