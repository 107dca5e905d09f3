#include <algorithm>

#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct PipeDreamOptions {
  bool vertical_sync = false;
};
template <plan::Like<PipeDreamOptions> O, class V>
void visit_fields(O& o, V&& visit) {
  visit(plan::Field{.key = "vertical_sync",
                    .sentence = "A micro-batch uses the same version of the weights at every stage."},
        o.vertical_sync);
}

struct PipeDream {
  using Options = PipeDreamOptions;
  static void require(const Shape& shape, const Options&, std::vector<std::string>& problems) {
    require_micros("pipedream", shape, problems);
  }
  static std::vector<Action> actions(const Shape& shape, int rank, const Options& options) {
    std::vector<Action> passes = one_forward_one_backward(shape, rank);
    const int delay = shape.stages - 1 - (options.vertical_sync ? 0 : rank);
    for (Action& pass : passes) pass.version = std::max(0, pass.micro - delay);
    return with_updates(passes, 1);
  }
};

}  // namespace

/// Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019: the order of
/// 1f1b without flushes, an update after every backward pass, and both passes of a micro-batch with the same
/// version of the weights, of which stage s of p keeps p - s (weight stashing). With s counted from 0:
///
///     w_s(t + 1) = w_s(t) - rate gradient_s(w_0(t - p + 1), w_1(t - p + 2), ..., w_p-1(t))
///
/// with the first weights for t below 0; with vertical_sync every stage takes w(t - p + 1). The picture is
/// 1f1b's, over as many micro-batches as lie between two flushes (of checkpoints and evaluations).
ScheduleRow pipedream() {
  return schedule_row<PipeDream>(
      {.name = "pipedream",
       .sentence = "1f1b with an update after every micro-batch, and stashed weights",
       .source = "Narayanan et al., SOSP 2019",
       .scheduling = "pipelined updates, 0 to p-1 late",
       .bubble = "(p-1)/(m+p-1), of as many micro-batches as lie between flushes",
       .activations = "p-r",
       .versions = "p-r",
       .flushes = false});
}

}  // namespace taxon::program
