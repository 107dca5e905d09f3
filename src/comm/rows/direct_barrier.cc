#include "comm/rows/direct.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// Everybody raises a signal at everybody.
double estimate(const Shape& shape, const LinkCost& cost) {
  return shape.size == 1 ? 0 : meeting_seconds(cost);
}

task::Task<void> run(Communicator& group, Call call) {
  call.data = View();
  TraceScope recorded(group, "barrier direct", call);
  if (group.size() == 1) co_return;
  Direct direct(group, call, net::Operation::Barrier);
  co_await direct.open();
  co_await direct.channel->meet(direct.tag, call);
}

}  // namespace

CollectiveRow direct_barrier() {
  return {net::Operation::Barrier, "direct", shares_memory, estimate, sends_nothing, run};
}

}  // namespace taxon::comm
