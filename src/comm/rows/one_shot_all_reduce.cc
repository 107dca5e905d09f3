#include "comm/rows/direct.h"
#include "comm/rows/sent.h"
#include "comm/trace_scope.h"

namespace taxon::comm {
namespace {

/// Of each of a member's two slots. Longer data takes several turns.
constexpr std::size_t kSlotBytes = std::size_t{16} << 10;

/// Every member puts its data into its slot, all meet once, and everybody sums all slots in the order of the
/// members: n times the arithmetic for half of the meetings. There are two slots in turn: when a member comes
/// back to the first, all have met over the second, so all have read the first. Needs no data in shared
/// regions.
tensor::Kernel put_in(const Call& call, View slot, Range bytes) {
  return copy_kernel(slot, call.data.slice(bytes.begin, bytes.size));
}

bool applies(const Shape& shape) { return shares_memory(shape) && shape.bytes <= kSlotBytes; }

/// One meeting; S is stored once and read from every member.
double estimate(const Shape& shape, const LinkCost& cost) {
  if (shape.size == 1) return 0;
  double bytes = static_cast<double>(shape.bytes);
  return meeting_seconds(cost) + direct_seconds(bytes * shape.size, cost) +
         (shape.size - 1) * bytes * cost.reduce;
}

task::Task<void> run(Communicator& group, Call call) {
  TraceScope recorded(group, "all_reduce one_shot", call);
  if (group.size() == 1) co_return;
  net::Tag tag = group.begin(net::Operation::AllReduce, call.unit, call.lane);
  if (!Channel::is_open(group, tag, kSlotBytes)) {
    co_await Channel::open(group, tag, call, kSlotBytes);
  }
  Channel& channel = *group.channel(tag);
  const View own = channel.slots()[static_cast<std::size_t>(group.rank())];
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(kSlotBytes, call.data.size() - at);
    const Range slot{channel.next_use() % 2 * kSlotBytes, size};
    ExchangeKernel copy(group, put_in(call, own.slice(slot.begin, size), {at, size}));
    if (!copy.done()) {
      co_await copy.finished();
    }
    co_await channel.meet(tag, call);
    if (size > 0) {
      ExchangeKernel sum(group, sum_members_kernel(call.type, call.data.slice(at, size), &channel.slots(),
                                                   slot, Write::Target));
      if (!sum.done()) {
        co_await sum.finished();
      }
    }
    at += size;
  } while (at < call.data.size());
}

}  // namespace

CollectiveRow one_shot_all_reduce() {
  return {net::Operation::AllReduce, "one_shot", applies, estimate, sends_nothing, run};
}

}  // namespace taxon::comm
