#pragma once

#include <memory>

#include "optim/rule.h"

namespace taxon::optim {

// The rows of the rule table, one file for each family.
std::unique_ptr<Rule> make_sgd(const plan::OptimiserPlan& plan, const RuleContext& context);
std::unique_ptr<Rule> make_sign(const plan::OptimiserPlan& plan, const RuleContext& context);
std::unique_ptr<Rule> make_momentum(const plan::OptimiserPlan& plan, const RuleContext& context);
std::unique_ptr<Rule> make_nesterov(const plan::OptimiserPlan& plan, const RuleContext& context);
std::unique_ptr<Rule> make_adamw(const plan::OptimiserPlan& plan, const RuleContext& context);

}  // namespace taxon::optim
