// What a server does where it follows an order: what it did before, when it can, and nothing else.
#include <fmt/format.h>

#include "exchange/service.h"

namespace taxon::exchange {

/// False if the next act waits for a worker. Throws if it never comes.
bool Service::can_follow(const Unit& unit) const {
  const Act& act = unit.script->next();
  const Seat& seat = unit.seats.at(static_cast<std::size_t>(act.worker));
  auto wait_unless = [&](bool there) {
    if (!there && (seat.waits || seat.closed || seat.wants_pause))
      unit.script->depart(fmt::format("worker {} {}", act.worker,
                                      seat.closed        ? "has ended"
                                      : seat.wants_pause ? "hands in nothing now"
                                                         : "waits for an answer that comes later"));
    return there;
  };
  switch (act.kind) {
    case Act::Kind::Admit:
    case Act::Kind::Drop:
    case Act::Kind::Repeat:
      return wait_unless(seat.came.has_value());
    case Act::Kind::Pause:
      if (seat.waits) wait_unless(false);
      return seat.wants_pause;
    case Act::Kind::Update:
      if (!unit.desk.full()) unit.script->depart("there is nothing to update with");
      return true;
    case Act::Kind::Answer:
      if (!seat.waits || seat.came)
        unit.script->depart(fmt::format("worker {} has no answer to get", act.worker));
      return true;
    default:
      unit.script->depart("it has an act that can't be followed");
  }
}

task::Task<void> Service::follow(Unit* unit) {
  for (; !unit->script->ended() && can_follow(*unit); unit->script->pass()) {
    const Act act = unit->script->next();
    Seat& seat = unit->seats[static_cast<std::size_t>(act.worker)];
    switch (act.kind) {
      case Act::Kind::Update: {
        auto applying = apply(unit);
        co_await applying;
        break;
      }
      case Act::Kind::Answer: {
        auto giving = give(unit, act.worker);
        co_await giving;
        break;
      }
      case Act::Kind::Pause:
        make_pause(unit, act.worker, act.number);
        break;
      default: {
        Came came = std::move(*seat.came);
        seat.came.reset();
        if (take_in(unit, act.worker, std::move(came)) != act.kind)
          unit->script->depart(fmt::format("worker {}'s contribution counts otherwise", act.worker));
      }
    }
  }
  if (!unit->script->ended()) co_return;
  for (const Seat& seat : unit->seats)
    if (seat.came || seat.wants_pause) unit->script->depart("it goes on beyond the order's end");
}

}  // namespace taxon::exchange
