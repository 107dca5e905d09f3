#include "base/error.h"
#include "optim/rules.h"

namespace taxon::optim {

std::span<const RuleRow> rule_table() {
  static constexpr RuleRow kRules[] = {
      {"sgd", make_sgd, 0},     {"momentum", make_momentum, 1}, {"nesterov", make_nesterov, 1},
      {"adamw", make_adamw, 2}, {"sign", make_sign, 0},
  };
  return kRules;
}

const RuleRow& find_rule(std::string_view name, std::span<const RuleRow> own) {
  for (std::span<const RuleRow> rows : {own, rule_table()})
    for (const RuleRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "optimiser.rule: no rule is called " + std::string(name));
}

}  // namespace taxon::optim
