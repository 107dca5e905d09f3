#include "optim/rules.h"

namespace taxon::optim {

std::span<const RuleRow> rule_table() {
  static constexpr RuleRow kRules[] = {
      {"sgd", make_sgd, 0},
      {"momentum", make_momentum, 1},
      {"nesterov", make_nesterov, 1},
      {"adamw", make_adamw, 2},
  };
  return kRules;
}

}  // namespace taxon::optim
