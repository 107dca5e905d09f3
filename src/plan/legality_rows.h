#pragma once

#include "plan/broken.h"
#include "plan/legality.h"

namespace taxon::plan {

// What the rows of the legality table are made from: predicates that say what is instead, or nothing.

/// The first level of which `broken` says something.
Violation any_level(const LegalityInput& c, Violation (*broken)(const LegalityInput&, const LevelPlan&));
/// True where replicas meet.
inline bool has_rule(const LevelPlan& level) { return level.rule != "sum"; }

inline bool is_sharded(const LegalityInput& c, const LevelPlan& level) {
  return c.known.sum_at(level) == SumAt::Parts && !has_rule(level);
}
inline bool has_servers(const LegalityInput& c, const LevelPlan& level) {
  return c.known.sum_at(level) == SumAt::Servers;
}
bool any_servers(const LegalityInput& c);

// plan/legality_servers.cc: when a worker of servers may go on, and what becomes of late contributions.
Violation servers_placed(const LegalityInput& c);
Violation servers_keep_a_centre(const LegalityInput& c, const LevelPlan& level);
Violation consistencies_known(const LegalityInput& c);
Violation consistency_used(const LegalityInput& c, const LevelPlan& level);
Violation replicas_answered_alone(const LegalityInput& c, const LevelPlan& level);
Violation lates_known(const LegalityInput& c);
Violation late_corrects(const LegalityInput& c, const LevelPlan& level);
Violation late_as_served(const LegalityInput& c, const LevelPlan& level);

}  // namespace taxon::plan
