#include <fmt/format.h>

#include "plan/legality_rows.h"

namespace taxon::plan {

Violation servers_keep_a_centre(const LevelPlan& level) {
  return unless(!has_servers(level) || level.rule != "average",
                "rule is average; use block, whose momentum is 0");
}

Violation consistency_used(const LevelPlan& level) {
  const LevelPlan plain;
  return unless(has_servers(level) || (level.staleness == plain.staleness && level.quorum == plain.quorum &&
                                       level.apply == plain.apply && level.late == plain.late &&
                                       level.compensation == plain.compensation),
                fmt::format("topology is {}", level.topology));
}

Violation quorum_applied(const LevelPlan& level) {
  return unless(level.quorum == 0 || level.quorum == level.apply,
                fmt::format("quorum is {}, apply is {}", level.quorum, level.apply));
}

Violation staleness_reached(const LevelPlan& level) {
  return unless(level.staleness <= 0 || level.apply == 1, fmt::format("apply is {}", level.apply));
}

Violation replicas_answered_alone(const LevelPlan& level) {
  return unless(!has_servers(level) || !has_rule(level) || level.staleness == 0 || level.apply == 1,
                fmt::format("staleness is {}, apply is {}", level.staleness, level.apply));
}

Violation lates_known(const LegalityInput& c) {
  std::vector<std::string> names;
  for (const auto& late : c.known.lates) names.push_back(late.name);
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (auto broken = known_name(level.late, names)) return broken;
  return {};
}

namespace {

/// The first level that names a known row of late contributions of which `broken` says something.
template <class Says>
Violation any_late(const LegalityInput& c, Says broken) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    for (const KnownNames::Late& late : c.known.lates)
      if (late.name == level.late)
        if (auto said = broken(level, late)) return said;
  return {};
}

}  // namespace

Violation late_corrects(const LegalityInput& c) {
  return any_late(c, [](const LevelPlan& level, const KnownNames::Late& late) {
    return unless(has_rule(level) ? late.weights : late.gradients,
                  fmt::format("late is {}, rule is {}", level.late, level.rule));
  });
}

Violation late_as_served(const LegalityInput& c) {
  return any_late(c, [](const LevelPlan& level, const KnownNames::Late& late) {
    return unless(
        !late.keeps_served || level.staleness == 0 || level.apply == 1,
        fmt::format("late is {}, staleness is {}, apply is {}", level.late, level.staleness, level.apply));
  });
}

Violation moved_at_once(const LevelPlan& level) {
  return unless(level.late != "moved" || (level.delay == 0 && level.mixing == 0),
                fmt::format("delay is {}, mixing is {}", level.delay, level.mixing));
}

Violation elastic_as_handed_in(const LevelPlan& level) {
  return unless(level.rule != "elastic" || level.late == "as_others", fmt::format("late is {}", level.late));
}

Violation compensation_used(const LevelPlan& level) {
  return unless(level.compensation == LevelPlan().compensation || level.late.starts_with("compensated"),
                fmt::format("late is {}", level.late));
}

}  // namespace taxon::plan
