#include "exchange/choose.h"

#include <fmt/format.h>

#include "exchange/topology.h"

namespace taxon::exchange {

comm::LinkCost nominal_cost(bool shares_memory) {
  // A message over shared memory and its copy; a message over 1 Gbit/s Ethernet. Sums run at a core's memory
  // speed.
  if (shares_memory) return {.latency = 2e-6, .bandwidth = 4e9, .reduce = 1e-10};
  return {.latency = 60e-6, .bandwidth = 119e6, .reduce = 1e-10};
}

const comm::CollectiveRow& choose(net::Operation collective, const std::string& name,
                                  const comm::Shape& shape) {
  if (name == "auto") return comm::choose_row(collective, shape, nominal_cost(shape.shares_memory));
  const comm::CollectiveRow& row = comm::find_row(collective, name);
  if (!row.applies(shape))
    throw Error(
        ErrorKind::Usage,
        fmt::format("the collective {} does not apply to {} ranks {}; use auto, or one that does", name,
                    shape.size, shape.shares_memory ? "that share memory" : "that do not all share memory"));
  return row;
}

void resolve_exchange(plan::Plan& plan, int size, bool shares_memory) {
  const std::string& overlap = plan.exchange.overlap;
  plan.resolved.overlap = overlap != "auto" ? overlap : size == 1 || shares_memory ? "backward" : "forward";
  const plan::LevelPlan& level = plan.exchange.levels.front();
  net::Operation reduce = find_topology(level.topology).reduce;
  for (plan::BucketPlan& bucket : plan.resolved.buckets)
    bucket.collective = size == 1 ? "none"
                                  : choose(reduce, level.collective,
                                           {size, static_cast<std::size_t>(bucket.bytes), shares_memory})
                                        .name;
}

}  // namespace taxon::exchange
