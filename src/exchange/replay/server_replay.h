#pragma once

#include <span>

#include "exchange/replay/replay_gate.h"

namespace taxon::exchange {

/// What a server did with one unit in a run whose order is followed: says which act is next, as soon as the
/// workers have come as far. Pure data, no network.
class ServerReplay {
 public:
  /// What a worker waits for here.
  struct Worker {
    bool came = false;    // its contribution is there, and not taken in yet
    bool waits = false;   // for an answer
    bool pauses = false;  // for the server to know that it pauses
    bool closed = false;
  };
  /// `subject` names the acts in messages.
  ServerReplay(std::string subject, const AsyncEvents& events, std::int32_t unit)
      : cursor_(std::move(subject), events, AsyncEvent::Role::Server, unit) {}

  /// The next act; null if it waits for a worker, or the order has ended. `full`: there is something to
  /// update with. Throws Error{Mismatch} if it can never be done, or if more was done than the order says.
  const AsyncEvent* next(std::span<const Worker> workers, bool full) const;
  /// The next act was done, and was of this kind: Error{Mismatch} if it was to be of another.
  void done(AsyncEvent::Kind kind);
  /// The workers have closed: Error{Mismatch} if there were more acts.
  void finish() const;
  /// "3 of 17": how far it got.
  std::string where() const { return cursor_.where(); }

 private:
  ReplayCursor cursor_;
};

}  // namespace taxon::exchange
