#include "exchange/topology.h"

#include "exchange/all_reduce.h"

namespace taxon::exchange {

std::span<const TopologyRow> topology_table() {
  static constexpr TopologyRow kTopologies[] = {
      {"all_reduce", make_all_reduce, net::Operation::AllReduce},
  };
  return kTopologies;
}

const TopologyRow& find_topology(std::string_view name) {
  for (const TopologyRow& row : topology_table())
    if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no topology is called " + std::string(name));
}

}  // namespace taxon::exchange
