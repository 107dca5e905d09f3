#include "comm/rows/ring.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

bool applies(const Shape&) { return true; }

/// n-1 steps that send S/n each; sums overlap with the following segment except for the last.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double part = static_cast<double>(shape.bytes) / shape.size;
  return ring_seconds(shape, cost, 1) + part * cost.reduce;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "reduce_scatter ring", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::ReduceScatter, call.unit, call.lane);
  Ring ring(group, call, tag, Ring::reduce(group.size()));
  auto steps = ring.run();
  co_await settle(group.runtime().pending(), std::move(steps));
}

}  // namespace

CollectiveRow ring_reduce_scatter() {
  return {net::Operation::ReduceScatter, "ring", applies, estimate, sends_share, run, /*gives_way=*/true};
}

}  // namespace taxon::comm
