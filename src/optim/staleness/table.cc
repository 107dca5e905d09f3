#include "base/error.h"
#include "base/table_row.h"
#include "optim/staleness.h"

namespace taxon::optim {

static LateRow as_others() {
  return {.name = "as_others",
          .sentence = "late contributions count as others",
          .corrects = LateRow::Corrects::Both,
          .keeps_served = false,
          .make = [](const plan::LevelPlan&, const LateContext&) -> std::unique_ptr<StalenessRule> {
            return {};
          }};
}

std::span<const LateRow> late_table() {
  static const LateRow kRules[] = {
      as_others(),
      TAXON_ROW(LateRow, less),
      TAXON_ROW(LateRow, compensated),
      TAXON_ROW(LateRow, compensated_adaptively),
      TAXON_ROW(LateRow, moved),
  };
  return kRules;
}

const LateRow& find_late(std::string_view name, std::span<const LateRow> own) {
  for (std::span<const LateRow> rows : {own, late_table()})
    for (const LateRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "nothing that becomes of late contributions is called " + std::string(name));
}

std::vector<plan::Catalogue::Late> known_lates(std::span<const LateRow> own) {
  std::vector<plan::Catalogue::Late> known;
  for (std::span<const LateRow> rows : {own, late_table()})
    for (const LateRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .gradients = row.corrects != LateRow::Corrects::Weights,
                       .weights = row.corrects != LateRow::Corrects::Gradients,
                       .keeps_served = row.keeps_served,
                       .scheduling = std::string(row.scheduling),
                       .sentence = std::string(row.sentence),
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                       .rules = row.rules});
  return known;
}

}  // namespace taxon::optim
