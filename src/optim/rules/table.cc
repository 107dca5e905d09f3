#include "base/error.h"
#include "base/table_row.h"
#include "optim/rule.h"

namespace taxon::optim {

std::span<const RuleRow> rule_table() {
  static const RuleRow kRules[] = {
      TAXON_ROW(RuleRow, sgd),   TAXON_ROW(RuleRow, momentum), TAXON_ROW(RuleRow, nesterov),
      TAXON_ROW(RuleRow, adamw), TAXON_ROW(RuleRow, sign),     TAXON_ROW(RuleRow, adagrad),
  };
  return kRules;
}

const RuleRow& find_rule(std::string_view name, std::span<const RuleRow> own) {
  for (std::span<const RuleRow> rows : {own, rule_table()})
    for (const RuleRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "optimiser.rule: no rule is called " + std::string(name));
}

std::vector<plan::Catalogue::Rule> known_rules(std::span<const RuleRow> own) {
  std::vector<plan::Catalogue::Rule> known;
  for (std::span<const RuleRow> rows : {own, rule_table()})
    for (const RuleRow& row : rows)
      known.push_back({.name = std::string(row.name),
                       .sentence = std::string(row.sentence),
                       .is_linear = row.is_linear,
                       .has_momentum = row.has_momentum,
                       .by_tensor = row.by_tensor,
                       .options = row.options ? row.options() : std::vector<plan::OptionKey>(),
                       .rules = row.rules});
  return known;
}

}  // namespace taxon::optim
