#include "exchange/levels/topology.h"

#include "base/table_row.h"

namespace taxon::exchange {
namespace {

/// Names of the collectives that serve both halves of a topology.
std::vector<std::string> collectives_of(const TopologyRow& topology,
                                        std::span<const comm::CollectiveRow> own) {
  std::vector<std::string> names;
  auto of_all = [own](auto&& visit) {
    for (std::span<const comm::CollectiveRow> rows : {own, comm::collective_table()})
      for (const comm::CollectiveRow& row : rows) visit(row);
  };
  if (topology.reduce == net::Operation::User) return names;
  of_all([&](const comm::CollectiveRow& row) {
    bool spreads = topology.spread == net::Operation::User;
    of_all([&](const comm::CollectiveRow& back) {
      spreads |= back.collective == topology.spread && back.name == row.name;
    });
    if (row.collective == topology.reduce && spreads) names.emplace_back(row.name);
  });
  return names;
}

}  // namespace

std::span<const TopologyRow> topology_table() {
  static const TopologyRow kTopologies[] = {
      TAXON_ROW(TopologyRow, all_reduce), TAXON_ROW(TopologyRow, sharded),
      TAXON_ROW(TopologyRow, adasum),     TAXON_ROW(TopologyRow, gossip),
      TAXON_ROW(TopologyRow, pairs),      TAXON_ROW(TopologyRow, significant),
      TAXON_ROW(TopologyRow, servers),
  };
  return kTopologies;
}

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

std::vector<plan::Catalogue::Topology> known_topologies(
    std::span<const TopologyRow> own, std::span<const comm::CollectiveRow> own_collectives) {
  std::vector<plan::Catalogue::Topology> known;
  for (std::span<const TopologyRow> rows : {own, topology_table()})
    for (const TopologyRow& topology : rows)
      known.push_back({.name = std::string(topology.name),
                       .collectives = collectives_of(topology, own_collectives),
                       // Servers are a machinery of Taxon's own, which no other row brings.
                       .sum = rows.data() == own.data() && topology.sum == plan::SumAt::Servers
                                  ? plan::SumAt::Nowhere
                                  : topology.sum,
                       .has_graph = topology.has_graph,
                       .optimisation = std::string(topology.optimisation),
                       .scheduling = std::string(topology.mixing),
                       .sentence = std::string(topology.sentence),
                       .options = topology.options ? topology.options() : std::vector<plan::OptionKey>(),
                       .rules = topology.rules,
                       .gathered_ahead = topology.gathered_ahead});
  return known;
}

}  // namespace taxon::exchange
