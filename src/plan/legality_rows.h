#pragma once

#include "plan/broken.h"
#include "plan/legality.h"

namespace taxon::plan {

// What the rows of the legality table are made from: predicates that say what is instead, or nothing.

/// The first level of which `broken` says something.
Broken any_level(const Case& c, Broken (*broken)(const LevelPlan&));
/// True where replicas meet.
inline bool has_rule(const LevelPlan& level) { return level.rule != "sum"; }

inline bool is_sharded(const LevelPlan& level) { return level.topology == "sharded" && !has_rule(level); }
inline bool has_servers(const LevelPlan& level) { return level.topology == "servers"; }

// plan/legality_topologies.cc: what a topology asks of its level, and of the others.
Broken adasum_of_gradients(const LevelPlan& level);
Broken adasum_in_twos(const Case& c);
Broken gossip_averages(const LevelPlan& level);
Broken pairs_alone(const Case& c);
Broken pairs_average(const LevelPlan& level);
Broken servers_placed(const Case& c);
Broken significant_averages(const LevelPlan& level);
Broken significance_used(const LevelPlan& level);

// plan/legality_servers.cc: when a worker of servers may go on, and what becomes of late contributions.
Broken servers_keep_a_centre(const LevelPlan& level);
Broken consistency_used(const LevelPlan& level);
Broken quorum_applied(const LevelPlan& level);
Broken staleness_reached(const LevelPlan& level);
Broken replicas_answered_alone(const LevelPlan& level);
Broken lates_known(const Case& c);
Broken late_corrects(const Case& c);
Broken late_as_served(const Case& c);
Broken moved_at_once(const LevelPlan& level);
Broken elastic_as_handed_in(const LevelPlan& level);
Broken compensation_used(const LevelPlan& level);

}  // namespace taxon::plan
