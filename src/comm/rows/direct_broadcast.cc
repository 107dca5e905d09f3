#include "comm/rows/direct.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// Everybody copies from the root's memory at the same time.
tensor::Kernel copy(const Direct& direct, Range bytes) {
  return copy_kernel(direct.call.data.slice(bytes.begin, bytes.size),
                     direct.peers.members[0].slice(bytes.begin, bytes.size));
}

/// The root tells that its data is there, everybody reads S, and tells the root.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  return 2 * meeting_seconds(cost) + direct_seconds(static_cast<double>(shape.bytes), cost);
}

/// The root's side.
task::Task<void> give(Direct& direct) {
  Channel& channel = *direct.channel;
  channel.advance();
  for (int member = 1; member < direct.group.size(); ++member) {
    co_await channel.raise(member, direct.call);
  }
  channel.advance();
  for (int member = 1; member < direct.group.size(); ++member) {
    co_await channel.wait(member, direct.tag, direct.call);
  }
}

task::Task<void> take(Direct& direct) {
  Channel& channel = *direct.channel;
  channel.advance();
  co_await channel.wait(0, direct.tag, direct.call);
  auto copies = direct.in_pieces({0, direct.call.data.size()}, copy);
  co_await copies;
  channel.advance();
  co_await channel.raise(0, direct.call);
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "broadcast direct", call);
  if (group.size() == 1) co_return;
  Direct direct(group, call, net::Operation::Broadcast);
  co_await direct.open();
  auto turn = group.rank() == 0 ? give(direct) : take(direct);
  co_await turn;
}

}  // namespace

CollectiveRow direct_broadcast() {
  return {net::Operation::Broadcast, "direct", shares_memory, estimate, sends_nothing, run};
}

}  // namespace taxon::comm
