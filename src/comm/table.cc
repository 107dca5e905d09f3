#include <fmt/format.h>

#include <array>

#include "comm/rows/rows.h"

namespace taxon::comm {
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
  static const std::array kTable{
      direct_all_reduce(),     one_shot_all_reduce(),   ring_all_reduce(),     halving_doubling_all_reduce(),
      tree_all_reduce(),       direct_reduce_scatter(), ring_reduce_scatter(), direct_all_gather(),
      ring_all_gather(),       direct_broadcast(),      tree_broadcast(),      direct_barrier(),
      dissemination_barrier(),
  };
  return kTable;
}

const CollectiveRow& find_row(net::Operation collective, std::string_view name) {
  std::string names;
  for (const CollectiveRow& row : collective_table()) {
    if (row.collective != collective) continue;
    if (row.name == name) return row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorKind::Usage,
              fmt::format("There is no {} called '{}'; there are: {}.", name_of(collective), name, names));
}

const CollectiveRow& choose_row(net::Operation collective, const Shape& shape, const LinkCost& cost) {
  const CollectiveRow* best = nullptr;
  double least = 0;
  for (const CollectiveRow& row : collective_table()) {
    if (row.collective != collective || !row.applies(shape)) continue;
    double seconds = row.estimate(shape, cost);
    if (best == nullptr || seconds < least) {
      best = &row;
      least = seconds;
    }
  }
  TAXON_CHECK(best != nullptr, "no row of ", name_of(collective), " applies");
  return *best;
}

}  // namespace taxon::comm
