#pragma once

#include <optional>
#include <span>
#include <vector>

#include "comm/collectives.h"
#include "exchange/levels/algorithm_selection.h"
#include "train/start/resume.h"

namespace taxon::train {

/// By level of a plan: what the slowest member's links reach; nothing where no codec needs to know.
using LevelLinks = std::vector<std::optional<comm::LinkCost>>;

/// Collective: probes the links of levels that have a codec. `own`: rows beside those of the tables.
task::Task<LevelLinks> probe_levels(RankGroups ranks, const plan::Plan* plan,
                                    const exchange::Extensions* own);

/// What rank 0 decides codecs by. Everything outlives the decision.
struct CodecChoice {
  const LevelLinks* links = nullptr;
  const std::vector<plan::BucketPlan>* before = nullptr;  // of a run that resumes; empty: it starts fresh
  const exchange::Extensions* own = nullptr;
};
/// At rank 0, whose processor is probed: writes for each bucket what a codec `auto` comes to and why, as a
/// run before had it if there was one, and tells of codecs that cost more than they save. REQUIRES: `plan`
/// has its buckets and their collectives.
task::Task<void> choose_codecs(TrainContext world, RankGroups ranks, CodecChoice choice, plan::Plan* plan);

/// At rank 0: names codecs between ranks that share memory, as they may not stand inside a node, at levels
/// where choose_codecs() does not weigh what they cost. `shapes`: by level.
void tell_of_codecs_inside_hosts(Observer& observer, const plan::Plan& plan,
                                 std::span<const exchange::LevelShape> shapes,
                                 const exchange::Extensions& own);

}  // namespace taxon::train
