#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct GPipe {
  using Options = NoOptions;
  static void require(const Shape& shape, const Options&, std::vector<std::string>& problems) {
    require_micros("gpipe", shape, problems);
  }
  static std::vector<Action> actions(const Shape& shape, int rank, const Options&) {
    std::vector<Action> passes;
    for (int micro = 0; micro < shape.micros; ++micro) passes.push_back({ActionKind::Forward, rank, micro});
    for (int micro = 0; micro < shape.micros; ++micro) passes.push_back({ActionKind::Backward, rank, micro});
    return with_flush(std::move(passes));
  }
};

}  // namespace

/// Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism", NeurIPS
/// 2019. There backward passes begin with the last micro-batch; here with the first, so that gradients are
/// added up in the order that every other schedule has.
///
///     rank 0  F0 F1 F2 F3 .  .  .  .  .  .  .  .  .  B0 -- B1 -- B2 -- B3 --
///     rank 1  .  F0 F1 F2 F3 .  .  .  .  .  .  B0 -- B1 -- B2 -- B3 -- .  .
///     rank 2  .  .  F0 F1 F2 F3 .  .  .  B0 -- B1 -- B2 -- B3 -- .  .  .  .
///     rank 3  .  .  .  F0 F1 F2 F3 B0 -- B1 -- B2 -- B3 -- .  .  .  .  .  .
ScheduleRow gpipe() {
  return schedule_row<GPipe>({.name = "gpipe",
                              .sentence = "all forward passes, then all backward passes",
                              .source = "Huang et al., NeurIPS 2019",
                              .bubble = "(p-1)/(m+p-1)",
                              .activations = "m"});
}

}  // namespace taxon::program
