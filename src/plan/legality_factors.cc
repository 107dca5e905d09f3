#include "plan/legality_factors.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/legality_rows.h"

namespace taxon::plan {
namespace {

bool has_factors(const LevelPlan& level) { return level.factors != FactorUse::None; }

bool any_factors(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  return std::any_of(levels.begin(), levels.end(), has_factors);
}

Violation factors_placed(const LegalityInput& c) {
  const auto& levels = c.plan.exchange.levels;
  for (std::size_t l = 0; l < levels.size(); ++l)
    if (has_factors(levels[l]) &&
        (l > 0 || c.known.sum_at(levels[l]) != SumAt::Everyone || has_rule(levels[l])))
      return fmt::format("level {} has topology {} and rule {}", l, levels[l].topology, levels[l].rule);
  return {};
}

Violation factors_uncoded(const LegalityInput& c) {
  for (const LevelPlan& level : c.plan.exchange.levels)
    if (has_factors(level) && level.codec.name != "none") return fmt::format("it is {}", level.codec.name);
  return {};
}

Violation factors_whole(const LegalityInput& c) {
  return unless(c.plan.exchange.gradients == GradientMemory::Whole || !any_factors(c),
                fmt::format("it is {}", c.plan.exchange.gradients));
}

constexpr LegalityRow kFactorLegality[] = {
    {"exchange.levels",
     "factors need topology all_reduce and rule sum, and belong to the first level: what goes on from there "
     "is a sum, which has no factors",
     factors_placed},
    {"exchange.levels",
     "factors need codec none at their level, since a memory of errors would lack the gradients that never "
     "were",
     factors_uncoded},
    {"exchange.gradients", "must be whole where gradients travel as factors, since their sum is made of all",
     factors_whole},
};

}  // namespace

std::span<const LegalityRow> factor_legality() { return kFactorLegality; }

}  // namespace taxon::plan
