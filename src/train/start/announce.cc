#include "train/start/announce.h"

#include "comm/paths.h"
#include "exchange/compression/factors.h"
#include "plan/asynchrony.h"

namespace taxon::train {
namespace {

void notice(Observer& observer, const std::string& sentence) {
  if (!sentence.empty()) observer.noticed(sentence);
}

/// Rank 0's ways to the others, where they differ, and what servers make of them.
void announce_paths(TrainContext world, RankGroups ranks) {
  const net::Transport& transport = world.runtime.transport;
  if (const std::string paths = comm::describe_paths(transport, ranks.group.members());
      !paths.empty() && paths != transport.path(ranks.group.global(1)).name)
    world.observer.noticed("paths: " + paths);
  for (const exchange::Levels* levels : {&ranks.levels, ranks.outer})
    for (std::size_t l = 0; levels != nullptr && l < levels->size(); ++l)
      notice(world.observer, levels->paths(l));
}

}  // namespace

void announce(TrainContext world, RankGroups ranks, const RunInfo& info, const exchange::Extensions& own) {
  world.observer.started(info);
  if (ranks.group.rank() != 0) return;
  if (const std::string hosts = plan::describe(info.plan.emulation); !hosts.empty())
    world.observer.noticed("emulated hosts: " + hosts);
  notice(world.observer, exchange::describe_factors(info.plan));
  const plan::Catalogue known = exchange::catalogue(own);
  notice(world.observer, plan::momentum_notice(info.plan, ranks.group.size(), known).value_or(""));
  announce_paths(world, ranks);
}

}  // namespace taxon::train
