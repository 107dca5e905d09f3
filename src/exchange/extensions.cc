#include "exchange/extensions.h"

#include "base/row_members.h"

namespace taxon::exchange {
namespace {

std::vector<plan::Catalogue::Graph> known_graphs(std::span<const GraphRow> own) {
  std::vector<plan::Catalogue::Graph> known;
  for (std::span<const GraphRow> rows : {own, graph_table()})
    for (const GraphRow& row : rows) known.push_back({std::string(row.name), row.balanced});
  return known;
}

std::vector<std::string> known_splits(std::span<const parallel::SplitRow> own) {
  std::vector<std::string> names;
  for (std::span<const parallel::SplitRow> rows : {own, parallel::split_table()})
    for (const parallel::SplitRow& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace

void require_whole(const Extensions& own) {
  using std::pair;
  Problems problems;
  require_members(problems, "topologies", own.topologies, pair{"make", &TopologyRow::make},
                  pair{"owned", &TopologyRow::owned}, pair{"scheduling", &TopologyRow::scheduling});
  require_members(problems, "graphs", own.graphs, pair{"at", &GraphRow::at});
  require_members(problems, "outer_rules", own.outer_rules, pair{"make", &optim::OuterRow::make});
  require_members(problems, "late_rules", own.late_rules);
  require_members(problems, "rules", own.rules, pair{"make", &optim::RuleRow::make});
  require_members(problems, "codecs", own.codecs, pair{"make", &codec::CodecRow::make});
  require_members(problems, "collectives", own.collectives, pair{"applies", &comm::CollectiveRow::applies},
                  pair{"estimate", &comm::CollectiveRow::estimate}, pair{"sent", &comm::CollectiveRow::sent},
                  pair{"steps", &comm::CollectiveRow::steps});
  require_members(problems, "schedules", own.schedules, pair{"make", &optim::ScheduleRow::make});
  require_members(problems, "consistencies", own.consistencies, pair{"make", &ConsistencyRow::make});
  require_members(problems, "pipelines", own.pipelines, pair{"options", &program::ScheduleRow::options},
                  pair{"ranks", &program::ScheduleRow::ranks},
                  pair{"problems", &program::ScheduleRow::problems},
                  pair{"actions", &program::ScheduleRow::actions});
  require_members(problems, "splits", own.splits);
  require_members(problems, "layer_kinds", own.layer_kinds, pair{"has", &parallel::LayerKind::has});
  problems.require_none();
}

plan::Catalogue catalogue(const Extensions& own) {
  require_whole(own);
  plan::Catalogue known;
  known.rules = optim::known_rules(own.rules);
  known.schedules = optim::known_schedules(own.schedules);
  known.topologies = known_topologies(own.topologies, own.collectives);
  known.codecs = codec::known_codecs(own.codecs);
  known.outer_rules = optim::known_outer_rules(own.outer_rules);
  known.graphs = known_graphs(own.graphs);
  known.consistencies = known_consistencies(own.consistencies);
  known.pipelines = program::known_pipelines(own.pipelines);
  known.splits = known_splits(own.splits);
  known.lates = optim::known_lates(own.late_rules);
  return known;
}

}  // namespace taxon::exchange
