#include "base/error.h"
#include "base/table_row.h"
#include "optim/rule.h"

namespace taxon::optim {

void Rule::set_zero_at(Range state, std::int64_t step) {
  if (state.size == 0) return;
  const std::int64_t behind = zero_at(state.end());
  zero_at_.erase(zero_at_.lower_bound(state.begin), zero_at_.upper_bound(state.end()));
  zero_at_[state.begin] = step;
  zero_at_[state.end()] = behind;
}

std::int64_t Rule::zero_at(std::size_t state) const {
  const auto next = zero_at_.upper_bound(state);
  return next == zero_at_.begin() ? 0 : std::prev(next)->second;
}

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
