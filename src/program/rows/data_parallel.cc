#include <fmt/format.h>

#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct DataParallel {
  using Options = NoOptions;
  static void require(const Shape& shape, const Options&, std::vector<std::string>& problems) {
    if (shape.stages != 1)
      problems.push_back(
          fmt::format("schedule data_parallel has one stage, the whole model, not {}", shape.stages));
  }
  static std::vector<Action> actions(const Shape& shape, int rank, const Options&) {
    return with_flush(one_forward_one_backward(shape, rank));
  }
};

}  // namespace

/// The step of data parallelism: gradients accumulate over the micro-batches, and are exchanged after the
/// last.
///
///     rank 0  F0 B0 -- F1 B1 -- F2 B2 --
ScheduleRow data_parallel() {
  return schedule_row<DataParallel>({.name = "data_parallel",
                                     .sentence = "one stage, whose gradients accumulate over micro-batches",
                                     .source = "Valiant, CACM 1990",
                                     .parallelism = "data",
                                     .bubble = "0",
                                     .activations = "1"});
}

}  // namespace taxon::program
