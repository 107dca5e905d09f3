#include "train/state/arena_bytes.h"

#include "exchange/levels/levels.h"

namespace taxon::train {

ArenaBytes arena_bytes(const plan::Plan& plan, const exchange::Layout& layout, const optim::RuleRow& rule) {
  const std::size_t master = size_of(plan.precision.master);
  const auto flights = static_cast<std::size_t>(plan.exchange.delay) + 1;
  ArenaBytes bytes;
  bytes.weights = layout.arena.size() * master;
  if (!exchange::meeting_level(plan.exchange.levels).empty()) bytes.weights *= 2;
  if (plan.precision.compute != plan.precision.master)
    bytes.weights += layout.arena.size() * size_of(plan.precision.compute);
  bytes.gradients = flights * (layout.gradients + layout.factors) * master;
  if (plan.exchange.gradients == plan::GradientMemory::Ring) bytes.gradients += layout.shard * master;
  bytes.optimiser = static_cast<std::size_t>(rule.state_arenas) * layout.shard * master;
  return bytes;
}

}  // namespace taxon::train
