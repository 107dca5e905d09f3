#include <fmt/format.h>

#include <algorithm>

#include "plan/legality_rows.h"

namespace taxon::plan {

Violation adasum_of_gradients(const LevelPlan& level) {
  return unless(level.topology != "adasum" || !has_rule(level), fmt::format("rule is {}", level.rule));
}

Violation adasum_in_twos(const LegalityInput& c) {
  const int node = c.plan.mesh.node;  // 0: known when the ranks have met
  for (const LevelPlan& level : c.plan.exchange.levels) {
    if (level.topology != "adasum" || (level.group != "data" && node == 0)) continue;
    const int size = level.group == "data"   ? c.world_size
                     : level.group == "node" ? node
                                             : c.world_size / node;
    if (size > 0 && (size & (size - 1)) != 0) return fmt::format("{} do at {}", size, level.group);
  }
  return {};
}

static Violation alone(const LegalityInput& c, std::string_view topology) {
  const auto& levels = c.plan.exchange.levels;
  return unless(levels.size() < 2 || std::none_of(levels.begin(), levels.end(),
                                                  [&](const LevelPlan& l) { return l.topology == topology; }),
                fmt::format("there are {} levels", levels.size()));
}

/// Groups of workers that push as one: each of a node's members has a part of its sum, and servers of its own
/// across nodes.
static bool served_as_groups(const Plan& plan) {
  const auto& levels = plan.exchange.levels;
  return levels.size() == 2 && is_sharded(levels[0]) && has_servers(levels[1]) && !has_rule(levels[1]) &&
         levels[1].quorum == 0 && plan.mesh.servers == 0;
}

Violation servers_placed(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  if (levels.size() < 2 || std::none_of(levels.begin(), levels.end(), has_servers)) return {};
  return unless(served_as_groups(c.plan), fmt::format("there are {} levels, the first with topology {}",
                                                      levels.size(), levels.front().topology));
}
Violation pairs_alone(const LegalityInput& c) { return alone(c, "pairs"); }

Violation pairs_average(const LevelPlan& level) {
  return unless(level.topology != "pairs" || (level.rule == "average" && level.delay == 0 &&
                                              level.mixing == 0 && level.inner_state != "average"),
                fmt::format("rule is {}, delay is {}, mixing is {}, inner_state is {}", level.rule,
                            level.delay, level.mixing, level.inner_state));
}

Violation significant_averages(const LevelPlan& level) {
  return unless(level.topology != "significant" || (level.rule == "average" && level.delay == 0 &&
                                                    level.mixing == 0 && level.inner_state != "average"),
                fmt::format("rule is {}, delay is {}, mixing is {}, inner_state is {}", level.rule,
                            level.delay, level.mixing, level.inner_state));
}

Violation significance_used(const LevelPlan& level) {
  return unless(level.significance == LevelPlan().significance || level.topology == "significant",
                fmt::format("topology is {}", level.topology));
}

Violation gossip_averages(const LevelPlan& level) {
  return unless(level.topology != "gossip" || level.rule == "average", fmt::format("rule is {}", level.rule));
}

}  // namespace taxon::plan
