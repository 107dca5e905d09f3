#pragma once

#include "optim/staleness.h"

namespace taxon::optim {

// The rows of the table, one file for each family.
std::unique_ptr<StalenessRule> make_less(const plan::LevelPlan& plan, const LateContext& context);
std::unique_ptr<StalenessRule> make_compensated(const plan::LevelPlan& plan, const LateContext& context);
std::unique_ptr<StalenessRule> make_compensated_adaptively(const plan::LevelPlan& plan,
                                                           const LateContext& context);
std::unique_ptr<StalenessRule> make_moved(const plan::LevelPlan& plan, const LateContext& context);

}  // namespace taxon::optim
