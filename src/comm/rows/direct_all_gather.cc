#include "comm/rows/direct.h"
#include "comm/rows/sent.h"
#include "comm/sum.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// A member writes its part into every other member's data.
tensor::Kernel copy_to_all(const Direct& direct, Range bytes) {
  const PeerMemory* peers = &direct.peers;
  const int own = direct.group.rank();
  tensor::Kernel kernel;
  kernel.name = "copy";
  kernel.cost = {0, bytes.size * peers->members.size()};
  kernel.body = [=](tensor::Milestones&) {
    const View source = peers->members[static_cast<std::size_t>(own)];
    for (std::size_t i = 0; i < peers->members.size(); ++i)
      if (static_cast<int>(i) != own)
        copy_into(peers->members[i].slice(bytes.begin, bytes.size), source.slice(bytes.begin, bytes.size));
  };
  return kernel;
}

/// Two meetings; a member writes S/n to each of the others.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double moved = static_cast<double>(shape.bytes) * (shape.size - 1) / shape.size;
  return 2 * meeting_seconds(cost) + direct_seconds(moved, cost);
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_gather direct", call);
  if (group.size() == 1) co_return;
  Direct direct(group, call, net::Operation::AllGather);
  co_await direct.open();
  Range own = elements_part(call, group.size(), group.rank());
  co_await direct.channel->meet(direct.tag, call);
  co_await direct.in_pieces(own, copy_to_all);
  group.runtime().transport.count_stored(own.size * static_cast<std::size_t>(group.size() - 1));
  co_await direct.channel->meet(direct.tag, call);
}

}  // namespace

CollectiveRow direct_all_gather() {
  return {net::Operation::AllGather, "direct", shares_memory, estimate, sends_share, run};
}

}  // namespace taxon::comm
