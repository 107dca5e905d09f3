#include "train/start/layout.h"

#include "exchange/compression/factors.h"
#include "exchange/layout/shard.h"
#include "exchange/levels/algorithm_selection.h"
#include "train/state/state.h"

namespace taxon::train {

exchange::Layout lay_out(const plan::Plan& plan, const model::ModelSpec& spec, const exchange::Levels& levels,
                         const exchange::Extensions& own) {
  const auto& buckets = plan.resolved.buckets;
  auto layout = exchange::lay_out(trainable(spec), buckets, plan.precision.master);
  for (std::size_t b = 0; b < layout.buckets.size(); ++b)
    layout.buckets[b].rows = exchange::rows_of(buckets[b], plan.exchange.levels, own);
  if (levels.size() > 0)
    exchange::lay_out_factors(layout, buckets, levels.group(0).size(), levels.group(0).rank());
  exchange::own(layout, levels);
  if (plan.exchange.gradients == plan::GradientMemory::Ring) {
    if (!spec.divisible)
      throw Error(ErrorKind::Usage,
                  "exchange.gradients: ring needs a model whose backward pass can be taken "
                  "in pieces, and " +
                      spec.name + " has only one; use whole");
    exchange::lay_out_ring(layout, static_cast<int>(spec.segments.size()), plan.exchange.in_flight);
  }
  return layout;
}

}  // namespace taxon::train
