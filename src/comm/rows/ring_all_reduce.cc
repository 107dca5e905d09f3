#include "comm/rows/ring.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

bool applies(const Shape&) { return true; }

/// 2 (n-1) steps that send S/n each (Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC
/// 2009). Sums overlap with the following segment except for the last.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double part = static_cast<double>(shape.bytes) / shape.size;
  return ring_seconds(shape, cost, 2) + part * cost.reduce;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_reduce ring", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::AllReduce, call.unit, call.lane);
  Ring ring(group, call, tag, Ring::both(group.size()));
  auto steps = ring.run();
  co_await settle(group.runtime().pending(), std::move(steps));
}

}  // namespace

CollectiveRow ring_all_reduce() {
  return {net::Operation::AllReduce, "ring", applies, estimate, sends_two_shares, run, /*gives_way=*/true};
}

}  // namespace taxon::comm
