#include <algorithm>

#include "base/error.h"
#include "optim/outer/masters.h"

namespace taxon::optim {

void OuterRule::adopt(const tensor::Arena& replica, const tensor::Arena& sum, UpdateRange place) {
  for_master(replica, [&](auto zero) {
    using T = decltype(zero);
    auto from = sum.values<T>({place.sum, place.weights.size});
    std::copy(from.begin(), from.end(), replica.values<T>(place.weights).begin());
  });
}

/// The row of that name, from its file.
#define TAXON_ROW(name)     \
  [] {                      \
    extern OuterRow name(); \
    return name();          \
  }()

std::span<const OuterRow> outer_table() {
  static const OuterRow kRules[] = {
      TAXON_ROW(average),        TAXON_ROW(block),  TAXON_ROW(block_nesterov), TAXON_ROW(outer_momentum),
      TAXON_ROW(outer_nesterov), TAXON_ROW(slowmo), TAXON_ROW(elastic),        TAXON_ROW(accumulated),
  };
  return kRules;
}

#undef TAXON_ROW

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
