#pragma once

#include <cstdint>
#include <vector>

namespace taxon::exchange {

/// One thing that a rank did which who computed how fast decides, where workers don't keep step. What
/// training comes to follows from these and their order, unit by unit, alone.
struct AsyncEvent {
  enum class Kind : std::uint8_t {
    // Of a server.
    Admit,    // a contribution came and counts
    Drop,     // a contribution came too late
    Repeat,   // a contribution came again, and counts no more than it did
    Update,   // an update begins; `number`: updates before it
    Apply,    // a contribution goes into that update
    Outdate,  // a contribution counts no more: updates went ahead of it
    Answer,   // a worker gets values and may go on; `number`: updates before that
    Pause,    // a worker counts nowhere until it hands in again; `number`: pauses of its before
    Lose,     // a worker is gone for good
    Time,     // a contribution that counts next came at; `number`: picoseconds by the rank's clock
    // Of a worker.
    Turn,  // it begins its turn `number`, which may be further than the next; of no unit
    // Of the rank that counts for all; of no unit.
    Report,  // it hears of a step of a worker's; `number`: reports of its before
    Stop,    // and learns from it that all shall stop
    // Of a member that answers pairs; `number`: the piece of the unit.
    Average,   // with what `worker` has
    OwnWay,    // its own way is added to what it answers with
    TakeOver,  // it takes over what it answers with
  };
  enum class Role : std::uint8_t { Server, Worker, Counter, Passive };
  static constexpr Role role_of(Kind kind) {
    if (kind < Kind::Turn) return Role::Server;
    if (kind < Kind::Report) return Role::Worker;
    return kind < Kind::Average ? Role::Counter : Role::Passive;
  }
  /// What follows from the update before it is in no order.
  static constexpr bool is_consequence(Kind kind) { return kind == Kind::Apply || kind == Kind::Outdate; }
  static constexpr std::int32_t kNoUnit = -1;
  Kind kind = Kind::Admit;
  std::int32_t unit = 0;
  std::int32_t worker = 0;
  std::int64_t number = 0;  // of contributions: what the worker handed in for the unit before
  friend bool operator==(const AsyncEvent&, const AsyncEvent&) = default;
};

/// Of one rank, in their order.
using AsyncEvents = std::vector<AsyncEvent>;

/// Where a rank's acts go, and those of an earlier run that it follows. Both outlive who does them.
struct EventLog {
  AsyncEvents* record = nullptr;        // null: nobody asks
  const AsyncEvents* follow = nullptr;  // of this rank; null: things are done as they come
  void note(const AsyncEvent& event) const {
    if (record) record->push_back(event);
  }
};

}  // namespace taxon::exchange
