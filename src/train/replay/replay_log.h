#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exchange/extensions.h"
#include "plan/plan.h"

namespace taxon::train {

/// The order in which a run's ranks did what its result depends on, where they don't keep step: another run
/// of the same plan that follows it comes to the same weights, bit for bit, however fast its ranks are.
struct ReplayLog {
  std::string plan;                          // as decisive_plan() has it
  std::uint64_t parameter_hash = 0;          // what the run came to
  std::vector<exchange::AsyncEvents> ranks;  // by rank
};

/// What of a plan decides the weights, as YAML: all but its name and how ranks reach each other, are watched
/// and report.
std::string decisive_plan(const plan::Plan& plan);

/// A head, the plan, and a line for each act, as in "4 admit 2 1 17": rank, act, unit, worker, number.
std::string to_text(const ReplayLog& order);
/// The reverse. Throws Error{Data} that names `origin` and the line.
ReplayLog parse_order(const std::string& text, const std::string& origin);

/// Why a run of this plan can't be recorded; empty: it can. `own`: rows beside those of the tables.
std::vector<plan::Problem> problems_of_recording(const plan::Plan& plan,
                                                 const exchange::Extensions& own = {});
/// Why it can't follow the order, which was read from `origin`.
std::vector<plan::Problem> problems_of_following(const plan::Plan& plan, int world_size,
                                                 const ReplayLog& order, const std::string& origin);

// A rank's acts as they travel to rank 0. What is applied in an update goes with it, and is left out.
std::vector<std::byte> pack_acts(const exchange::AsyncEvents& events);
exchange::AsyncEvents unpack_acts(const std::vector<std::byte>& bytes, Rank from);

}  // namespace taxon::train
