#pragma once

#include "comm/channel.h"
#include "comm/kernels.h"

namespace taxon::comm {

// What the direct collectives have in common: the members read and write each other's memory between
// meetings, so nothing is copied on the way and the processors' caches are the network.

/// One use of a direct collective: its tag, its channel, and everybody's memory behind the call's data.
struct Direct {
  Communicator& group;
  Call call;
  net::Tag tag;
  Channel* channel = nullptr;
  PeerMemory peers;  // not mapped only when the data is empty

  Direct(Communicator& group, const Call& call, net::Operation operation)
      : group(group), call(call), tag(group.begin(operation, call.unit, call.lane)) {}
  /// Coroutine: finds or opens the channel and maps the data.
  task::Task<void> open();
  /// Coroutine: works through `bytes` of every member's data piece by piece; between pieces everything else
  /// that is ready runs, about every millisecond.
  task::Task<void> in_pieces(Range bytes, tensor::Kernel (*kernel)(const Direct&, Range bytes));
};

/// Part `index` of the data in bytes, cut at cache lines, which no two members then write at the same time.
Range lines_part(std::size_t bytes, int members, int index);
/// Part `index` of the data in bytes, as view.h part() cuts its elements.
Range elements_part(const Call& call, int members, int index);

/// What a meeting costs: everybody raises a signal, everybody sees it. About a quarter of a message, which is
/// also queued, copied and matched.
inline double meeting_seconds(const LinkCost& cost) { return cost.latency / 4; }
/// What moving `bytes` between members in place costs: a message through shared memory is copied in and out,
/// a store only once.
inline double direct_seconds(double bytes, const LinkCost& cost) { return bytes / (2 * cost.bandwidth); }

bool shares_memory(const Shape& shape);

}  // namespace taxon::comm
