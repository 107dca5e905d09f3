#include "train/state/arena_bytes.h"

#include "exchange/levels/levels.h"

namespace taxon::train {

ArenaBytes arena_bytes(const plan::Plan& plan, const exchange::Layout& layout, const optim::RuleRow& rule,
                       int versions) {
  const std::size_t master = size_of(plan.precision.master), compute = size_of(plan.precision.compute);
  const auto flights = static_cast<std::size_t>(plan.exchange.delay) + 1;
  ArenaBytes bytes;
  if (layout.gathered > 0) {
    bytes.weights = layout.shard * master + layout.gathered * compute;
  } else {
    bytes.weights = layout.arena.size() * master;
    if (!exchange::meeting_level(plan.exchange.levels).empty()) bytes.weights *= 2;
    if (versions > 1 || plan.precision.compute != plan.precision.master)
      bytes.weights += static_cast<std::size_t>(versions) * layout.arena.size() * compute;
  }
  bytes.gradients = flights * (layout.gradients + layout.factors) * master;
  if (plan.exchange.gradients == plan::GradientMemory::Ring) bytes.gradients += layout.shard * master;
  bytes.optimiser = static_cast<std::size_t>(rule.state_arenas) * layout.shard * master;
  return bytes;
}

}  // namespace taxon::train
