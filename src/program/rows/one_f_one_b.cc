#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct OneFOneB {
  using Options = NoOptions;
  static void require(const Shape& shape, const Options&, std::vector<std::string>& problems) {
    require_micros("1f1b", shape, problems);
  }
  static std::vector<Action> actions(const Shape& shape, int rank, const Options&) {
    return with_flush(one_forward_one_backward(shape, rank));
  }
};

}  // namespace

/// PipeDream-Flush: Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021.
///
///     rank 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 -- F4 B1 -- F5 B2 -- .  B3 -- .  B4 -- .  B5 --
///     rank 1  .  F0 F1 F2 .  .  .  .  B0 -- F3 B1 -- F4 B2 -- F5 B3 -- .  B4 -- .  B5 -- .  .
///     rank 2  .  .  F0 F1 .  .  B0 -- F2 B1 -- F3 B2 -- F4 B3 -- F5 B4 -- .  B5 -- .  .  .  .
///     rank 3  .  .  .  F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 -- F4 B4 -- F5 B5 -- .  .  .  .  .  .
ScheduleRow one_f_one_b() {
  return schedule_row<OneFOneB>({.name = "1f1b",
                                 .sentence = "a backward pass as soon as there is one, then a forward pass",
                                 .source = "Narayanan et al., ICML 2021 (PipeDream-Flush)",
                                 .bubble = "(p-1)/(m+p-1)",
                                 .activations = "p-r"});
}

}  // namespace taxon::program
