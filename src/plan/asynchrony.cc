#include "plan/asynchrony.h"

#include <fmt/format.h>

#include <algorithm>

namespace taxon::plan {
namespace {

bool has_momentum(const OptimiserPlan& optimiser, const Catalogue& known) {
  const Catalogue::Rule* rule = known.find_rule(optimiser.rule);
  return rule && rule->has_momentum && optimiser.momentum > 0;
}

/// Of workers that contribute as one: nodes where they meet across nodes.
int groups(const Plan& plan, int world_size) {
  const int node = std::max({1, plan.mesh.node, plan.resolved.node});
  return plan.exchange.levels.size() > 1 ? world_size / node : workers(plan, world_size);
}

double lowered(double momentum, double asynchrony) {
  return std::clamp(1 - (1 - momentum) * asynchrony, 0.0, momentum);
}

}  // namespace

double asynchrony(const Plan& plan, int world_size, const Catalogue& known) {
  for (const LevelPlan& level : plan.exchange.levels) {
    if (known.sum_at(level) != SumAt::Servers || level.rule != "sum") continue;
    const ConsistencyBounds bounds = known.bounds_of(level);
    if (bounds.lead != 0 && bounds.apply > 0)
      return std::max(1.0, static_cast<double>(groups(plan, world_size)) / bounds.apply);
  }
  return 1;
}

double momentum_at_servers(const Plan& plan, int world_size, const Catalogue& known) {
  const double given = plan.optimiser.momentum;
  if (!has_momentum(plan.optimiser, known) ||
      plan.optimiser.asynchronous_momentum == AsynchronousMomentum::AsGiven)
    return given;
  return lowered(given, asynchrony(plan, world_size, known));
}

std::optional<std::string> momentum_notice(const Plan& plan, int world_size, const Catalogue& known) {
  const double g = asynchrony(plan, world_size, known), given = plan.optimiser.momentum;
  if (!has_momentum(plan.optimiser, known) || g <= 1) return {};
  const double taken = momentum_at_servers(plan, world_size, known), fit = lowered(given, g);
  if (taken > fit)
    return fmt::format(
        "optimiser.momentum {:.3g} acts like {:.3g}, since {:.3g} asynchronous updates for each gradient add "
        "momentum of their own; training may diverge; optimiser.asynchronous_momentum: lowered would take "
        "{:.3g} at the servers",
        given, 1 - (1 - given) / g, g, fit);
  return fmt::format(
      "optimiser.momentum {:.3g} is {:.3g} at the servers, since {:.3g} asynchronous updates for each "
      "gradient "
      "add momentum of their own; optimiser.asynchronous_momentum: as_given insists on it",
      given, taken, g);
}

}  // namespace taxon::plan
