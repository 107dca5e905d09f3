#include "exchange/choose.h"

#include <fmt/format.h>

namespace taxon::exchange {

comm::LinkCost nominal_cost(bool shares_memory) {
  // A message over shared memory and its copy; a message over 1 Gbit/s Ethernet. Sums run at a core's memory
  // speed.
  if (shares_memory) return {.latency = 2e-6, .bandwidth = 4e9, .reduce = 1e-10};
  return {.latency = 60e-6, .bandwidth = 119e6, .reduce = 1e-10};
}

const comm::CollectiveRow& choose(net::Operation collective, const std::string& name,
                                  const comm::Communicator& group, std::size_t bytes, bool mapped) {
  comm::Shape shape{group.size(), bytes, mapped};
  if (name == "auto") return comm::choose_row(collective, shape, nominal_cost(group.shares_memory()));
  const comm::CollectiveRow& row = comm::find_row(collective, name);
  if (!row.applies(shape))
    throw Error(
        ErrorKind::Usage,
        fmt::format("the collective {} does not apply to {} ranks {}; use auto, or one that does", name,
                    group.size(), mapped ? "that share memory" : "that do not all share memory"));
  return row;
}

}  // namespace taxon::exchange
