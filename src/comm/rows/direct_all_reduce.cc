#include "comm/rows/direct.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// One pass: a member reads its range of every member's data and writes the sum into all of them.
tensor::Kernel sum(const Direct& direct, Range bytes) {
  return sum_members_kernel(direct.call.type, View(), &direct.peers.members, bytes, Write::All);
}

/// Two meetings; (n-1)/n S is read from the others and as much is written to them.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double moved = static_cast<double>(shape.bytes) * (shape.size - 1) / shape.size;
  return 2 * (meeting_seconds(cost) + direct_seconds(moved, cost)) + moved * cost.reduce;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_reduce direct", call);
  if (group.size() == 1) co_return;
  Direct direct(group, call, net::Operation::AllReduce);
  co_await direct.open();
  Range own = lines_part(call.data.size(), group.size(), group.rank());
  co_await direct.channel->meet(direct.tag, call);
  co_await direct.in_pieces(own, sum);
  group.runtime().transport.count_stored(own.size * static_cast<std::size_t>(group.size() - 1));
  co_await direct.channel->meet(direct.tag, call);
}

}  // namespace

CollectiveRow direct_all_reduce() {
  return {net::Operation::AllReduce, "direct", shares_memory, estimate, sends_share, run};
}

}  // namespace taxon::comm
