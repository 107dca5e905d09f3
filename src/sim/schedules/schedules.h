#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "comm/collectives.h"
#include "sim/schedule_evaluator.h"

namespace taxon::sim {

/// When the members of a collective end, and come in, if nothing else is under way. Counted from the
/// beginning.
struct CompletionTimes {
  std::vector<Duration> ends;
  /// How often, one after the other, a message waits for its turn on the way to the last end.
  double waits = 1;
  /// How much later a member may come without holding anybody up; empty: not at all.
  std::vector<Duration> slack;
  /// Of a row with `behind`: when the first bytes come to the member.
  std::vector<Duration> first;
};

/// The steps of one row of comm::collective_table(), as sim::Coarse needs them: the row's own, in the row's
/// own pieces (comm/rows/), without a coroutine and a message each.
struct CoarseSchedule {
  net::Operation collective;
  std::string_view name;
  const char* label;  // in traces, as the row's own: "all_reduce ring"
  /// For two members or more. Pieces of one step are taken for equally long.
  CompletionTimes (*evaluate)(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
  /// What every member's data is afterwards (of reduce_scatter: its part), with the same bits as the row's;
  /// `members` are real and equal in size. Null: data stays as it is.
  std::vector<std::byte> (*outcome)(std::span<const ConstView> members, DType type);
  /// Whom a member's end waits for, besides itself and whom that one waits for: a broadcast's way from the
  /// root. Null: all members wait for all.
  int (*behind)(int member) = nullptr;
  /// With `behind`: the root ends when all have come, and not by itself.
  bool root_waits = false;
};

/// One for each row of comm::collective_table(). sim/schedules/table.cc.
std::span<const CoarseSchedule> schedule_table();
/// That of the row; null for a row of a program's own (those of the table all have one:
/// tests/sim/coarse_test.cc).
const CoarseSchedule* find_schedule(const comm::CollectiveRow& row);

// The files of this folder.
CompletionTimes evaluate_ring_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_ring_reduce_scatter(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_ring_all_gather(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_halving_doubling(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_tree_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_torus_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_tree_broadcast(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_direct_all_reduce(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_direct_reduce_scatter(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_direct_all_gather(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_direct_broadcast(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_one_shot(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_direct_barrier(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
CompletionTimes evaluate_dissemination(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);
/// Communicator::gather(): everybody sends `bytes` to everybody.
CompletionTimes evaluate_gather(ScheduleEvaluator& evaluator, std::size_t bytes, DType type);

std::vector<std::byte> sum_in_order(std::span<const ConstView> members, DType type);
std::vector<std::byte> sum_along_ring(std::span<const ConstView> members, DType type);
std::vector<std::byte> sum_by_halving(std::span<const ConstView> members, DType type);
std::vector<std::byte> sum_up_tree(std::span<const ConstView> members, DType type);
std::vector<std::byte> sum_over_torus(std::span<const ConstView> members, DType type);
std::vector<std::byte> parts_of_all(std::span<const ConstView> members, DType type);
std::vector<std::byte> first_of_all(std::span<const ConstView> members, DType type);

}  // namespace taxon::sim
