#pragma once

#include <string>
#include <vector>

#include "exchange/replay/async_event.h"
#include "plan/plan.h"

namespace taxon::faults {

/// Whether servers may leave contributions out: those of a quorum may.
enum class Dropping { Forbidden, Allowed };

/// What a unit's owner must not do with contributions, as far as it is seen from what it did.
struct ServerOracle {
  int workers = 1;
  std::int64_t staleness = 0;  // see plan::ConsistencyBounds
  Dropping dropping = Dropping::Forbidden;
  bool all_at_once = false;  // every update is made of one contribution of every worker
  bool complete = false;     // the run ended well: nothing may be left over
};
ServerOracle bookkeeping_of(const plan::LevelPlan& level, int workers);

/// One sentence for each unit at which a contribution was applied twice, or never, or too late, or was left
/// out; or a worker was let go too far ahead. `server` names the rank.
std::vector<std::string> check_contributions(int server, const exchange::AsyncEvents& events,
                                             const ServerOracle& book);

/// How many contributions a server got: [unit][worker].
std::vector<std::vector<std::int64_t>> count_contributions(const exchange::AsyncEvents& events, int workers);

}  // namespace taxon::faults
