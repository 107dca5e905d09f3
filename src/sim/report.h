#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "base/named.h"
#include "base/time.h"
#include "control/event.h"

namespace taxon::sim {

/// What passed one end of a link, or a switch.
struct LinkUse {
  std::string name;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  Duration busy{0};
};

/// How one rank ended, and what it did.
struct RankUse {
  Instant end;
  std::exception_ptr error;                   // null: it returned
  bool killed = false;                        // by the fault script
  Duration compute{0}, exchange{0}, data{0};  // for which the streams of its device worked
};

/// A run of a world.
struct Report {
  Duration time{0};  // until the last rank had ended
  std::uint64_t events = 0;
  std::uint64_t messages = 0;  // messages and puts delivered
  std::uint64_t trace = 0;     // a hash of everything that happened: equal for equal runs
  std::vector<LinkUse> links;
  std::vector<RankUse> ranks;
  /// The run could not finish: who waited for whom when nothing was left to happen. Its failure is
  /// Error{Deadline} then.
  std::optional<control::HangReport> hang;
  /// What went wrong first, in virtual time; null: every rank returned.
  std::exception_ptr failure;
  std::optional<Rank> first_culprit;  // whose failure it was
};

}  // namespace taxon::sim
