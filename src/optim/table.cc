#include "base/error.h"
#include "optim/rule.h"

namespace taxon::optim {

/// The row of that name, from its file.
#define TAXON_ROW(name)    \
  [] {                     \
    extern RuleRow name(); \
    return name();         \
  }()

std::span<const RuleRow> rule_table() {
  static const RuleRow kRules[] = {
      TAXON_ROW(sgd), TAXON_ROW(momentum), TAXON_ROW(nesterov), TAXON_ROW(adamw), TAXON_ROW(sign),
  };
  return kRules;
}

#undef TAXON_ROW

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
                       .is_adaptive = row.is_adaptive});
  return known;
}

}  // namespace taxon::optim
