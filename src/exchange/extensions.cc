#include "exchange/extensions.h"

namespace taxon::exchange {
namespace {

template <class Row>
std::vector<std::string> names_of(std::span<const Row> own, std::span<const Row> table) {
  std::vector<std::string> names;
  for (std::span<const Row> rows : {own, table})
    for (const Row& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace

plan::Catalogue catalogue(const Extensions& own) {
  plan::Catalogue known;
  known.rules = optim::known_rules(own.rules);
  known.schedules = optim::known_schedules(own.schedules);
  known.topologies = known_topologies(own.topologies, own.collectives);
  known.codecs = codec::known_codecs(own.codecs);
  known.outer_rules = optim::known_outer_rules(own.outer_rules);
  known.graphs = names_of(own.graphs, graph_table());
  known.consistencies = known_consistencies(own.consistencies);
  known.pipelines = program::known_pipelines(own.pipelines);
  known.splits = names_of(own.splits, parallel::split_table());
  known.lates = optim::known_lates(own.late_rules);
  return known;
}

}  // namespace taxon::exchange
