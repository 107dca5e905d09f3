#pragma once

#include <span>

#include "codec/codec.h"
#include "exchange/consistency/rule.h"
#include "exchange/levels/topology.h"
#include "exchange/topologies/graph.h"
#include "optim/outer.h"
#include "optim/rule.h"
#include "optim/schedule.h"
#include "optim/staleness.h"
#include "parallel/layer_kind.h"
#include "parallel/split.h"
#include "program/schedule.h"

namespace taxon::exchange {

/// Rows of a program's own beside those of the tables, and found before them. They go along with the plan
/// that names them; what they span outlives the run.
struct Extensions {
  std::span<const TopologyRow> topologies;
  std::span<const GraphRow> graphs;
  std::span<const optim::OuterRow> outer_rules;
  std::span<const optim::LateRow> late_rules;
  std::span<const optim::RuleRow> rules;
  std::span<const codec::CodecRow> codecs;
  std::span<const comm::CollectiveRow> collectives;
  std::span<const optim::ScheduleRow> schedules;
  std::span<const ConsistencyRow> consistencies;
  std::span<const program::ScheduleRow> pipelines;
  std::span<const parallel::SplitRow> splits;
  std::span<const parallel::LayerKind> layer_kinds;
};

/// Throws Error{Usage} that lists every row without a name, or without a function that its table calls.
void require_whole(const Extensions& own);

/// What a plan's exchange, optimiser and mesh may name, for plan::check_plan(). Models, datasets and
/// transports are for the caller to add. Throws as require_whole().
plan::Catalogue catalogue(const Extensions& own = {});

}  // namespace taxon::exchange
