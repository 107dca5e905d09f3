#pragma once

#include <fmt/format.h>

#include "plan/legality.h"

namespace taxon::exchange {

/// True for a rule whose answer is the replicas' mean and nothing that an owner keeps.
inline bool only_averages(const plan::LegalityInput& c, const plan::LevelPlan& level) {
  const plan::Catalogue::Outer* rule = c.known.find_outer(level.rule);
  return rule && !rule->keeps_centre;
}

/// For topologies in which what a member makes of a meeting is its own alone.
inline plan::Violation averages_at_once(const plan::LegalityInput& c, const plan::LevelPlan& level) {
  return plan::unless(only_averages(c, level) && level.delay == 0 && level.mixing == 0 &&
                          level.inner_state != plan::InnerState::Average,
                      fmt::format("rule is {}, delay is {}, mixing is {}, inner_state is {}", level.rule,
                                  level.delay, level.mixing, level.inner_state));
}

}  // namespace taxon::exchange
