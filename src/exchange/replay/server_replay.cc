#include "exchange/replay/server_replay.h"

#include <fmt/format.h>

#include <algorithm>

namespace taxon::exchange {

const AsyncEvent* ServerReplay::next(std::span<const Worker> workers, bool full) const {
  if (cursor_.ended()) {
    if (std::any_of(workers.begin(), workers.end(), [](const Worker& w) { return w.came || w.pauses; }))
      cursor_.depart("it goes on beyond the order's end");
    return nullptr;
  }
  const AsyncEvent& event = cursor_.next();
  if (static_cast<std::size_t>(event.worker) >= workers.size())
    cursor_.depart(fmt::format("it has an act of worker {} of {}", event.worker, workers.size()));
  const Worker& worker = workers[static_cast<std::size_t>(event.worker)];
  auto once = [&](bool there) {
    if (!there && (worker.waits || worker.closed || worker.pauses))
      cursor_.depart(fmt::format("worker {} {}", event.worker,
                                 worker.closed   ? "has ended"
                                 : worker.pauses ? "hands in nothing now"
                                                 : "waits for an answer that comes later"));
    return there ? &event : nullptr;
  };
  switch (event.kind) {
    case AsyncEvent::Kind::Admit:
    case AsyncEvent::Kind::Drop:
    case AsyncEvent::Kind::Repeat:
    case AsyncEvent::Kind::Time:
      return once(worker.came);
    case AsyncEvent::Kind::Pause:
      if (worker.waits) return once(false);
      return worker.pauses ? &event : nullptr;
    case AsyncEvent::Kind::Update:
      if (!full) cursor_.depart("there is nothing to update with");
      return &event;
    case AsyncEvent::Kind::Answer:
      if (!worker.waits || worker.came)
        cursor_.depart(fmt::format("worker {} has no answer to get", event.worker));
      return &event;
    default:
      cursor_.depart("it has an act that can't be followed");
  }
}

void ServerReplay::done(AsyncEvent::Kind kind) {
  if (kind != cursor_.next().kind)
    cursor_.depart(fmt::format("worker {}'s contribution counts otherwise", cursor_.next().worker));
  cursor_.pass();
}

void ServerReplay::finish() const {
  if (!cursor_.ended()) cursor_.depart("the workers have ended");
}

}  // namespace taxon::exchange
