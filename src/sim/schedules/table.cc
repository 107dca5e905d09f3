#include <array>

#include "sim/schedules/schedules.h"

namespace taxon::sim {
namespace {

int parent(int member) { return (member - 1) / 2; }
int root(int) { return 0; }

using enum net::Operation;
constexpr std::array kTable{
    CoarseSchedule{AllReduce, "direct", "all_reduce direct", evaluate_direct_all_reduce, sum_in_order},
    CoarseSchedule{AllReduce, "one_shot", "all_reduce one_shot", evaluate_one_shot, sum_in_order},
    CoarseSchedule{AllReduce, "ring", "all_reduce ring", evaluate_ring_all_reduce, sum_along_ring},
    CoarseSchedule{AllReduce, "halving_doubling", "all_reduce halving_doubling", evaluate_halving_doubling,
                   sum_by_halving},
    CoarseSchedule{AllReduce, "tree", "all_reduce tree", evaluate_tree_all_reduce, sum_up_tree},
    CoarseSchedule{AllReduce, "torus", "all_reduce torus", evaluate_torus_all_reduce, sum_over_torus},
    CoarseSchedule{ReduceScatter, "direct", "reduce_scatter direct", evaluate_direct_reduce_scatter,
                   sum_in_order},
    CoarseSchedule{ReduceScatter, "ring", "reduce_scatter ring", evaluate_ring_reduce_scatter,
                   sum_along_ring},
    CoarseSchedule{AllGather, "direct", "all_gather direct", evaluate_direct_all_gather, parts_of_all},
    CoarseSchedule{AllGather, "ring", "all_gather ring", evaluate_ring_all_gather, parts_of_all},
    CoarseSchedule{Broadcast, "direct", "broadcast direct", evaluate_direct_broadcast, first_of_all, root,
                   true},
    CoarseSchedule{Broadcast, "tree", "broadcast tree", evaluate_tree_broadcast, first_of_all, parent},
    CoarseSchedule{Barrier, "direct", "barrier direct", evaluate_direct_barrier, nullptr},
    CoarseSchedule{Barrier, "dissemination", "barrier dissemination", evaluate_dissemination, nullptr},
};

}  // namespace

std::span<const CoarseSchedule> schedule_table() { return kTable; }

const CoarseSchedule* find_schedule(const comm::CollectiveRow& row) {
  for (const CoarseSchedule& schedule : kTable)
    // A program's own may have the name of one of the table.
    if (schedule.collective == row.collective && schedule.name == row.name)
      return row.steps == comm::find_row(row.collective, row.name).steps ? &schedule : nullptr;
  return nullptr;
}

}  // namespace taxon::sim
