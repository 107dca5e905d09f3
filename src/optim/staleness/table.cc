#include "base/error.h"
#include "optim/staleness/rows.h"

namespace taxon::optim {
namespace {

std::unique_ptr<StalenessRule> make_none(const plan::LevelPlan&, const LateContext&) { return {}; }

}  // namespace

std::span<const LateRow> late_table() {
  using Corrects = LateRow::Corrects;
  static constexpr LateRow kRules[] = {
      {"as_others", "late contributions count as others", Corrects::Both, false, make_none},
      {"less", "a gradient is divided by 1 + its staleness (DynSGD)", Corrects::Gradients, false, make_less},
      {"compensated", "a gradient is corrected for the way of the weights since (DC-ASGD)",
       Corrects::Gradients, true, make_compensated},
      {"compensated_adaptively", "the same, by less where gradients are large (DC-ASGD-a)",
       Corrects::Gradients, true, make_compensated_adaptively},
      {"moved", "a replica counts as if it had set out from what the owner has now", Corrects::Weights, true,
       make_moved},
  };
  return kRules;
}

const LateRow& find_late(std::string_view name, std::span<const LateRow> own) {
  for (std::span<const LateRow> rows : {own, late_table()})
    for (const LateRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "nothing that becomes of late contributions is called " + std::string(name));
}

std::vector<plan::KnownNames::Late> known_lates(std::span<const LateRow> own) {
  std::vector<plan::KnownNames::Late> known;
  for (std::span<const LateRow> rows : {own, late_table()})
    for (const LateRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .gradients = row.corrects != LateRow::Corrects::Weights,
                       .weights = row.corrects != LateRow::Corrects::Gradients,
                       .keeps_served = row.keeps_served});
  return known;
}

}  // namespace taxon::optim
