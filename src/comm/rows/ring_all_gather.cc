#include "comm/rows/ring.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

bool applies(const Shape&) { return true; }

/// n-1 steps that send S/n each (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
/// operations in MPICH", IJHPCA 2005).
double estimate(const Shape& shape, const LinkCost& cost) {
  return shape.size == 1 ? 0 : ring_seconds(shape, cost, 1);
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_gather ring", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::AllGather, call.unit, call.lane);
  Ring ring(group, call, tag, Ring::gather(group.size()));
  auto steps = ring.run();
  co_await settle(group.runtime().pending(), std::move(steps));
}

}  // namespace

CollectiveRow ring_all_gather() {
  return {net::Operation::AllGather, "ring", applies, estimate, sends_share, run, /*gives_way=*/true};
}

}  // namespace taxon::comm
