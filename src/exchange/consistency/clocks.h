#pragma once

#include "exchange/consistency/rule.h"
#include "plan/field.h"

namespace taxon::exchange {

/// Three of the five numbers of consistency (the other two, period and delay, are the worker's own).
/// Synchronous {0, all, all}; bounded staleness (SSP: Ho et al., NeurIPS 2013) {s, all, 1}; asynchronous
/// {unbounded, all, 1}; backup workers (Chen et al., arXiv 1604.00981) {0, k, k}; n-softsync (Zhang et al.,
/// IJCAI 2016) {unbounded, all, c}.
struct Consistency {
  static constexpr std::int64_t kUnbounded = ConsistencyRule::kUnbounded;
  static constexpr int kAll = ConsistencyRule::kAll;
  std::int64_t staleness = 0;  // clocks that a worker may be ahead of the common clock
  int quorum = kAll;           // the common clock is that of the quorum-th fastest worker
  int apply = kAll;            // contributions that make an update
};
template <plan::Like<Consistency> C, class V>
void visit_fields(C& c, V&& visit) {
  visit(
      plan::Field{.key = "staleness",
                  .sentence = "Steps that a worker may be ahead of the common clock (SSP); 0: none; -1: any "
                              "number (asynchronous).",
                  .min = -1,
                  .max = 1e9},
      c.staleness);
  visit(plan::Field{.key = "quorum",
                    .sentence =
                        "The common clock is that of the so-many-th fastest worker, and what comes later is "
                        "dropped (backup workers); 0: of the slowest.",
                    .min = 0,
                    .max = 1 << 20},
        c.quorum);
  visit(plan::Field{.key = "apply",
                    .sentence = "Contributions that make an update (n-softsync); 0: one of every worker.",
                    .min = 0,
                    .max = 1 << 20},
        c.apply);
}

/// The rule of these numbers.
std::unique_ptr<ConsistencyRule> make_clocks(Consistency numbers);

}  // namespace taxon::exchange
