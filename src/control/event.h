#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/named.h"

namespace taxon::control {

/// A rank's process or host is gone: its connection closed without a goodbye.
struct PeerLost {
  Rank rank;
  std::string reason;
};
/// The same of a rank that the others do without (Session::spare). The run goes on.
struct Departed {
  Rank rank;
  std::string reason;
};
/// A rank failed and said why before it ended.
struct Aborted {
  Rank by;
  ErrorKind kind = ErrorKind::Internal;
  std::string message;
};
/// A rank has not been heard of for so long (it is stopped, or its host or link is down). The run goes on.
struct Silent {
  Rank rank;
  double seconds = 0;
};
/// A silent rank is back.
struct Returned {
  Rank rank;
  double seconds = 0;
};
/// A rank has been silent for longer than the plan allows.
struct DeadlinePassed {
  Rank rank;
  double seconds = 0;
};
/// Somebody asked for an orderly end of the run (Ctrl-C at one rank).
struct StopRequested {
  Rank by;
};
/// Nothing moves: who waits for whom. `lines` is for people; `culprits` are the ranks that the others wait
/// for.
struct HangReport {
  std::vector<std::string> lines;
  std::vector<Rank> culprits;
};

using Event =
    std::variant<PeerLost, Departed, Aborted, Silent, Returned, DeadlinePassed, StopRequested, HangReport>;

/// One line for people (a hang report: several).
std::string describe(const Event& event);
/// After a fatal event the run cannot go on: PeerLost, Aborted, DeadlinePassed.
bool is_fatal(const Event& event);
/// The error that a fatal event means for every other rank, with the rank to blame: PeerLost, so that nobody
/// is taken for who failed; ranks that disagree, a run that diverged or was interrupted keep their kind.
/// REQUIRES: is_fatal(event).
Error error_of(const Event& event);

}  // namespace taxon::control
