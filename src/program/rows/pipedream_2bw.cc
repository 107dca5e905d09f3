#include <fmt/format.h>

#include <algorithm>

#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct DoubleBufferedOptions {
  int micros_per_update = 0;
};
template <plan::Like<DoubleBufferedOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "micros_per_update",
                    .sentence = "Micro-batches of an update; 0: as many as stages.",
                    .min = 0,
                    .max = 1 << 20},
        o.micros_per_update);
}

struct DoubleBuffered {
  using Options = DoubleBufferedOptions;
  static int per_update(const Shape& shape, const Options& options) {
    return options.micros_per_update > 0 ? options.micros_per_update : shape.stages;
  }
  static void require(const Shape& shape, const Options& options, std::vector<std::string>& problems) {
    const int per = per_update(shape, options);
    if (per < shape.stages)
      problems.push_back(
          fmt::format("schedule pipedream_2bw has two versions of the weights only if an update has at least "
                      "as many micro-batches as there are stages: micros_per_update {} is fewer than {}",
                      per, shape.stages));
    if (shape.micros % per != 0)
      problems.push_back(fmt::format(
          "schedule pipedream_2bw needs whole updates: {} micro-batches are no multiple of the {} "
          "of an update",
          shape.micros, per));
  }
  static std::vector<Action> actions(const Shape& shape, int rank, const Options& options) {
    const int per = per_update(shape, options);
    std::vector<Action> passes = one_forward_one_backward(shape, rank);
    for (Action& pass : passes) pass.version = std::max(0, pass.micro / per - 1);
    return with_updates(passes, per);
  }
};

}  // namespace

/// PipeDream-2BW: Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021. The order
/// of 1f1b without flushes; gradients of micros_per_update micro-batches make an update, and all of them are
/// of the version before the newest, so that two versions are enough:
///
///     w(t + 1) = w(t) - rate gradient(w(t - 1)),  w(-1) = w(0)
ScheduleRow pipedream_2bw() {
  return schedule_row<DoubleBuffered>(
      {.name = "pipedream_2bw",
       .sentence = "1f1b with updates that are one late, and two versions",
       .source = "Narayanan et al., ICML 2021 (PipeDream-2BW)",
       .scheduling = "pipelined updates, 1 late",
       .bubble = "(p-1)/(m+p-1), of as many micro-batches as lie between flushes",
       .activations = "p-r",
       .versions = "2",
       .flushes = false});
}

}  // namespace taxon::program
