// What a server does where it follows an order: what it did before, when it can, and nothing else.
#include <fmt/format.h>

#include "exchange/server/parameter_server.h"

namespace taxon::exchange {

/// False if the next act waits for a worker. Throws if it never comes.
bool ParameterServer::can_follow(const Unit& unit) const {
  const AsyncEvent& event = unit.replay->next();
  const WorkerSlot& slot = unit.slots.at(static_cast<std::size_t>(event.worker));
  auto wait_unless = [&](bool there) {
    if (!there && (slot.waits || slot.closed || slot.wants_pause))
      unit.replay->depart(fmt::format("worker {} {}", event.worker,
                                      slot.closed        ? "has ended"
                                      : slot.wants_pause ? "hands in nothing now"
                                                         : "waits for an answer that comes later"));
    return there;
  };
  switch (event.kind) {
    case AsyncEvent::Kind::Admit:
    case AsyncEvent::Kind::Drop:
    case AsyncEvent::Kind::Repeat:
      return wait_unless(slot.came.has_value());
    case AsyncEvent::Kind::Pause:
      if (slot.waits) wait_unless(false);
      return slot.wants_pause;
    case AsyncEvent::Kind::Update:
      if (!unit.controller.full()) unit.replay->depart("there is nothing to update with");
      return true;
    case AsyncEvent::Kind::Answer:
      if (!slot.waits || slot.came)
        unit.replay->depart(fmt::format("worker {} has no answer to get", event.worker));
      return true;
    default:
      unit.replay->depart("it has an act that can't be followed");
  }
}

task::Task<void> ParameterServer::follow(Unit* unit) {
  for (; !unit->replay->ended() && can_follow(*unit); unit->replay->pass()) {
    const AsyncEvent event = unit->replay->next();
    WorkerSlot& slot = unit->slots[static_cast<std::size_t>(event.worker)];
    switch (event.kind) {
      case AsyncEvent::Kind::Update: {
        auto applying = apply(unit);
        co_await applying;
        break;
      }
      case AsyncEvent::Kind::Answer: {
        auto giving = give(unit, event.worker);
        co_await giving;
        break;
      }
      case AsyncEvent::Kind::Pause:
        make_pause(unit, event.worker, event.number);
        break;
      default: {
        Came came = std::move(*slot.came);
        slot.came.reset();
        if (take_in(unit, event.worker, std::move(came)) != event.kind)
          unit->replay->depart(fmt::format("worker {}'s contribution counts otherwise", event.worker));
      }
    }
  }
  if (!unit->replay->ended()) co_return;
  for (const WorkerSlot& slot : unit->slots)
    if (slot.came || slot.wants_pause) unit->replay->depart("it goes on beyond the order's end");
}

}  // namespace taxon::exchange
