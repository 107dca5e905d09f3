#include <array>

#include "base/check.h"
#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

int parent(int member) { return (member - 1) / 2; }
int root(int) { return 0; }

using enum net::Operation;
constexpr std::array kTable{
    Schedule{AllReduce, "direct", "all_reduce direct", rehearse_direct_all_reduce, sum_in_order},
    Schedule{AllReduce, "one_shot", "all_reduce one_shot", rehearse_one_shot, sum_in_order},
    Schedule{AllReduce, "ring", "all_reduce ring", rehearse_ring_all_reduce, sum_along_ring},
    Schedule{AllReduce, "halving_doubling", "all_reduce halving_doubling", rehearse_halving_doubling,
             sum_by_halving},
    Schedule{AllReduce, "tree", "all_reduce tree", rehearse_tree_all_reduce, sum_up_tree},
    Schedule{ReduceScatter, "direct", "reduce_scatter direct", rehearse_direct_reduce_scatter, sum_in_order},
    Schedule{ReduceScatter, "ring", "reduce_scatter ring", rehearse_ring_reduce_scatter, sum_along_ring},
    Schedule{AllGather, "direct", "all_gather direct", rehearse_direct_all_gather, parts_of_all},
    Schedule{AllGather, "ring", "all_gather ring", rehearse_ring_all_gather, parts_of_all},
    Schedule{Broadcast, "direct", "broadcast direct", rehearse_direct_broadcast, first_of_all, root, true},
    Schedule{Broadcast, "tree", "broadcast tree", rehearse_tree_broadcast, first_of_all, parent},
    Schedule{Barrier, "direct", "barrier direct", rehearse_direct_barrier, nullptr},
    Schedule{Barrier, "dissemination", "barrier dissemination", rehearse_dissemination, nullptr},
};

}  // namespace

std::span<const Schedule> schedule_table() { return kTable; }

const Schedule& find_schedule(const comm::CollectiveRow& row) {
  for (const Schedule& schedule : kTable)
    if (schedule.collective == row.collective && schedule.name == row.name) return schedule;
  TAXON_CHECK(false, "the row ", row.name, " has no schedule");
  return kTable.front();
}

}  // namespace taxon::sim
