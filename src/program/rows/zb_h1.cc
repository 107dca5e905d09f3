#include "program/rows/order.h"

namespace taxon::program {
namespace {

struct ZeroBubbleH1 {
  using Options = NoOptions;
  static void require(const Shape& shape, const Options&, std::vector<std::string>& problems) {
    require_micros("zb_h1", shape, problems);
  }
  static std::vector<Action> actions(const Shape& shape, int rank, const Options&) {
    // Rank r lags r gradients of weights behind: as many as it has fewer micro-batches under way than the
    // first rank, so that all ranks keep at most p.
    std::vector<Action> passes;
    int inputs = 0, weights = 0;
    for (const Action& pass : one_forward_one_backward(shape, rank)) {
      if (pass.kind == ActionKind::Forward) {
        passes.push_back(pass);
        continue;
      }
      passes.push_back({ActionKind::BackwardInput, rank, pass.micro});
      if (++inputs - weights > rank) passes.push_back({ActionKind::BackwardWeight, rank, weights++});
    }
    while (weights < shape.micros) passes.push_back({ActionKind::BackwardWeight, rank, weights++});
    return with_flush(std::move(passes));
  }
};

}  // namespace

/// Qi et al., "Zero bubble pipeline parallelism", ICLR 2024, schedule ZB-H1: the order of 1f1b, whose
/// backward passes make gradients of inputs alone; those of weights fill what would be bubbles. The bubble is
/// a third of 1f1b's and the memory the same, where the three passes take equally long.
///
///     rank 0  F0 F1 F2 F3 .  .  .  I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5
///     rank 1  .  F0 F1 F2 .  .  I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5
///     rank 2  .  .  F0 F1 .  I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5
///     rank 3  .  .  .  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5
ScheduleRow zb_h1() {
  return schedule_row<ZeroBubbleH1>({.name = "zb_h1",
                                     .sentence = "1f1b whose gradients of weights fill the bubbles",
                                     .source = "Qi et al., ICLR 2024 (ZB-H1)",
                                     .bubble = "(p-1)/(3m+p-1)",
                                     .activations = "at most p",
                                     .splits_backward = true});
}

}  // namespace taxon::program
