#include "exchange/levels/topology.h"

namespace taxon::exchange {
namespace {

bool exists(net::Operation collective, std::string_view name) {
  for (const comm::CollectiveRow& row : comm::collective_table())
    if (row.collective == collective && row.name == name) return true;
  return false;
}

std::vector<std::string> collectives_of(const TopologyRow& topology) {
  std::vector<std::string> names;
  if (topology.reduce == net::Operation::User) return names;
  for (const comm::CollectiveRow& row : comm::collective_table())
    if (row.collective == topology.reduce &&
        (topology.spread == net::Operation::User || exists(topology.spread, row.name)))
      names.emplace_back(row.name);
  return names;
}

}  // namespace

/// The topology of that name, from its file.
#define TAXON_ROW(name)        \
  [] {                         \
    extern TopologyRow name(); \
    return name();             \
  }()

std::span<const TopologyRow> topology_table() {
  static const TopologyRow kTopologies[] = {
      TAXON_ROW(all_reduce), TAXON_ROW(sharded),     TAXON_ROW(adasum),  TAXON_ROW(gossip),
      TAXON_ROW(pairs),      TAXON_ROW(significant), TAXON_ROW(servers),
  };
  return kTopologies;
}

#undef TAXON_ROW

const TopologyRow& find_topology(std::string_view name, std::span<const TopologyRow> own) {
  for (std::span<const TopologyRow> rows : {own, topology_table()})
    for (const TopologyRow& row : rows)
      if (row.name == name) return row;
  throw Error(ErrorKind::Usage, "no topology is called " + std::string(name));
}

plan::SumAt sum_at(const plan::LevelPlan& level, std::span<const TopologyRow> own) {
  for (std::span<const TopologyRow> rows : {own, topology_table()})
    for (const TopologyRow& row : rows)
      if (row.name == level.topology) return row.sum;
  return plan::SumAt::Nowhere;
}

std::vector<plan::Catalogue::Topology> known_topologies(std::span<const TopologyRow> own) {
  std::vector<plan::Catalogue::Topology> known;
  for (std::span<const TopologyRow> rows : {own, topology_table()})
    for (const TopologyRow& topology : rows)
      known.push_back({.name = std::string(topology.name),
                       .collectives = collectives_of(topology),
                       // Servers are a machinery of Taxon's own, which no other row brings.
                       .sum = rows.data() == own.data() && topology.sum == plan::SumAt::Servers
                                  ? plan::SumAt::Nowhere
                                  : topology.sum,
                       .has_graph = topology.has_graph,
                       .optimisation = std::string(topology.optimisation),
                       .scheduling = std::string(topology.mixing),
                       .sentence = std::string(topology.sentence),
                       .options = topology.options ? topology.options() : std::vector<plan::OptionKey>(),
                       .rules = topology.rules});
  return known;
}

}  // namespace taxon::exchange
