#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/table_row.h"
#include "comm/collectives.h"

namespace taxon::comm {
namespace {

/// How many times as long as the fastest row one may take that gives way: our choice.
constexpr double kForOthers = 1.25;

}  // namespace

std::string_view name_of(net::Operation collective) {
  switch (collective) {
    case net::Operation::AllReduce:
      return "all_reduce";
    case net::Operation::ReduceScatter:
      return "reduce_scatter";
    case net::Operation::AllGather:
      return "all_gather";
    case net::Operation::Broadcast:
      return "broadcast";
    case net::Operation::Barrier:
      return "barrier";
    default:
      return "collective";
  }
}

std::span<const CollectiveRow> collective_table() {
  static const CollectiveRow kTable[] = {
      TAXON_ROW(CollectiveRow, direct_all_reduce),     TAXON_ROW(CollectiveRow, one_shot_all_reduce),
      TAXON_ROW(CollectiveRow, ring_all_reduce),       TAXON_ROW(CollectiveRow, halving_doubling_all_reduce),
      TAXON_ROW(CollectiveRow, tree_all_reduce),       TAXON_ROW(CollectiveRow, torus_all_reduce),
      TAXON_ROW(CollectiveRow, direct_reduce_scatter), TAXON_ROW(CollectiveRow, ring_reduce_scatter),
      TAXON_ROW(CollectiveRow, direct_all_gather),     TAXON_ROW(CollectiveRow, ring_all_gather),
      TAXON_ROW(CollectiveRow, direct_broadcast),      TAXON_ROW(CollectiveRow, tree_broadcast),
      TAXON_ROW(CollectiveRow, direct_barrier),        TAXON_ROW(CollectiveRow, dissemination_barrier),
  };
  return kTable;
}

const CollectiveRow& find_row(net::Operation collective, std::string_view name,
                              std::span<const CollectiveRow> own) {
  std::string names;
  for (std::span<const CollectiveRow> rows : {own, collective_table()})
    for (const CollectiveRow& row : rows) {
      if (row.collective != collective) continue;
      if (row.name == name) return row;
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    }
  throw Error(ErrorKind::Usage,
              fmt::format("There is no {} called '{}'; there are: {}.", name_of(collective), name, names));
}

const CollectiveRow& choose_row(net::Operation collective, const Shape& shape, const LinkCost& cost,
                                std::span<const CollectiveRow> own, Urgency urgency) {
  std::vector<std::pair<double, const CollectiveRow*>> found;  // by estimate
  for (std::span<const CollectiveRow> rows : {own, collective_table()})
    for (const CollectiveRow& row : rows)
      if (row.collective == collective && row.applies(shape))
        found.emplace_back(row.estimate(shape, cost), &row);
  TAXON_CHECK(!found.empty(), "no row of ", name_of(collective), " applies");
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  if (urgency == Urgency::Differs)
    for (const auto& [seconds, row] : found)
      if (row->gives_way && seconds <= kForOthers * found.front().first) return *row;
  return *found.front().second;
}

}  // namespace taxon::comm
