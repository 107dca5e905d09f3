#include <fmt/format.h>

#include <algorithm>

#include "plan/legality_rows.h"

namespace taxon::plan {

bool any_servers(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  return std::any_of(levels.begin(), levels.end(),
                     [&](const LevelPlan& level) { return has_servers(c, level); });
}

/// Groups of workers that push as one: each of a node's members has a part of its sum, and servers of its own
/// across nodes.
static bool served_as_groups(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  return levels.size() == 2 && is_sharded(c, levels[0]) && has_servers(c, levels[1]) &&
         !has_rule(levels[1]) && !c.known.bounds_of(levels[1]).drops() && c.plan.mesh.servers == 0;
}

Violation servers_placed(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  if (levels.size() < 2 || !any_servers(c)) return {};
  return unless(served_as_groups(c), fmt::format("there are {} levels, the first with topology {}",
                                                 levels.size(), levels.front().topology));
}

Violation servers_keep_a_centre(const LegalityInput& c, const LevelPlan& level) {
  const Catalogue::Outer* rule = c.known.find_outer(level.rule);
  return unless(!has_servers(c, level) || !rule || rule->keeps_centre,
                fmt::format("rule is {}; use block, whose momentum is 0", level.rule));
}

Violation consistency_used(const LegalityInput& c, const LevelPlan& level) {
  const LevelPlan plain;
  return unless(has_servers(c, level) || (level.consistency == plain.consistency && level.late == plain.late),
                fmt::format("topology is {}", level.topology));
}

Violation replicas_answered_alone(const LegalityInput& c, const LevelPlan& level) {
  return unless(!has_servers(c, level) || !has_rule(level) || c.known.bounds_of(level).answers_what_it_took(),
                fmt::format("consistency is {} ({})", level.consistency, c.known.bounds_of(level).words));
}

Violation consistencies_known(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto broken = known_name(level.consistency, names_of(c.known.consistencies))) return broken;
  return {};
}

Violation lates_known(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto broken = known_name(level.late, names_of(c.known.lates))) return broken;
  return {};
}

Violation late_corrects(const LegalityInput& c, const LevelPlan& level) {
  const Catalogue::Late* late = c.known.find_late(level.late);
  return unless(!late || (has_rule(level) ? late->weights : late->gradients),
                fmt::format("late is {}, rule is {}", level.late, level.rule));
}

Violation late_as_served(const LegalityInput& c, const LevelPlan& level) {
  const Catalogue::Late* late = c.known.find_late(level.late);
  return unless(!late || !late->keeps_served || c.known.bounds_of(level).answers_what_it_took(),
                fmt::format("late is {}, consistency is {} ({})", level.late, level.consistency,
                            c.known.bounds_of(level).words));
}

}  // namespace taxon::plan
