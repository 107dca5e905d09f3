#pragma once

#include "plan/broken.h"
#include "plan/legality.h"

namespace taxon::plan {

// What the rows of the legality table are made from: predicates that say what is instead, or nothing.

/// The first level of which `broken` says something.
Violation any_level(const LegalityInput& c, Violation (*broken)(const LevelPlan&));
/// True where replicas meet.
inline bool has_rule(const LevelPlan& level) { return level.rule != "sum"; }

inline bool is_sharded(const LevelPlan& level) { return level.topology == "sharded" && !has_rule(level); }
inline bool has_servers(const LevelPlan& level) { return level.topology == "servers"; }

// plan/legality_topologies.cc: what a topology asks of its level, and of the others.
Violation adasum_of_gradients(const LevelPlan& level);
Violation adasum_in_twos(const LegalityInput& c);
Violation gossip_averages(const LevelPlan& level);
Violation pairs_alone(const LegalityInput& c);
Violation pairs_average(const LevelPlan& level);
Violation servers_placed(const LegalityInput& c);
Violation significant_averages(const LevelPlan& level);
Violation significance_used(const LevelPlan& level);

// plan/legality_servers.cc: when a worker of servers may go on, and what becomes of late contributions.
Violation servers_keep_a_centre(const LevelPlan& level);
Violation consistency_used(const LevelPlan& level);
Violation quorum_applied(const LevelPlan& level);
Violation staleness_reached(const LevelPlan& level);
Violation replicas_answered_alone(const LevelPlan& level);
Violation lates_known(const LegalityInput& c);
Violation late_corrects(const LegalityInput& c);
Violation late_as_served(const LegalityInput& c);
Violation moved_at_once(const LevelPlan& level);
Violation elastic_as_handed_in(const LevelPlan& level);
Violation compensation_used(const LevelPlan& level);

}  // namespace taxon::plan
