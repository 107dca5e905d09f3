#include "comm/rows/direct.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// A member reads its part of every member's data. Nobody else reads that part, so the sum goes into it at
/// once.
tensor::Kernel sum(const Direct& direct, Range bytes) {
  return sum_members_kernel(direct.call.type, direct.call.data.slice(bytes.begin, bytes.size),
                            &direct.peers.members, bytes, Write::Target);
}

/// Two meetings; (n-1)/n S is read from the others.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double moved = static_cast<double>(shape.bytes) * (shape.size - 1) / shape.size;
  return 2 * meeting_seconds(cost) + direct_seconds(moved, cost) + moved * cost.reduce;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "reduce_scatter direct", call);
  if (group.size() == 1) co_return;
  Direct direct(group, call, net::Operation::ReduceScatter);
  co_await direct.open();
  co_await direct.channel->meet(direct.tag, call);
  co_await direct.in_pieces(elements_part(call, group.size(), group.rank()), sum);
  co_await direct.channel->meet(direct.tag, call);
}

}  // namespace

CollectiveRow direct_reduce_scatter() {
  return {net::Operation::ReduceScatter, "direct", shares_memory, estimate, sends_nothing, run};
}

}  // namespace taxon::comm
