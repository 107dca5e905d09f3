#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "exchange/extensions.h"
#include "model/model.h"
#include "plan/cluster.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "sim/critical_path.h"
#include "sim/world.h"
#include "train/observer.h"

namespace taxon::planner {

struct FidelityRow;

/// A training run on a cluster that is only described.
struct SimulationInput {
  plan::Plan plan;  // legal; its length is what is simulated
  plan::ClusterModel cluster;
  int ranks = 1;
  std::optional<plan::ModelProfile> profile;
  const FidelityRow* fidelity = nullptr;
  bool keep_spans = false;        // for a trace
  exchange::Extensions own = {};  // what the plan names beside rows of the tables
};

/// What ranks train on and with.
struct SimulatedInputs {
  std::shared_ptr<const data::Storage> files = {};  // that the data sets read
  data::Datasets datasets;
  std::function<std::unique_ptr<model::Model>(int rank)> make_model;
  std::string costs;  // where the time of passes comes from, in words
};

/// How true a simulation is.
struct FidelityRow {
  std::string_view name;
  sim::Fidelity world;
  sim::Collectives collectives;
  bool has_models;  // real ones, which know what parts of layers hand on; a profile gives their times alone
  SimulatedInputs (*make_inputs)(const SimulationInput&);
};
/// exact: real models on real data. timing: shapes and costs alone. coarse: and collectives as one event.
std::span<const FidelityRow> fidelity_table();

/// What was seen. Times are virtual.
struct SimulationResult {
  train::RunInfo info;  // rank 0's
  train::Outcome outcome;
  std::vector<std::string> notices;  // rank 0's
  std::string costs;
  std::vector<train::StepReport> steps;                 // rank 0's
  std::vector<std::vector<train::StepReport>> by_rank;  // [rank]
  std::size_t warm_up = 0;                              // steps that don't count
  Duration median{0};                                   // time of a counted step
  double samples_per_second = 0;                        // of all ranks, over the counted steps
  std::vector<sim::LinkUse> links;                      // during the counted steps
  std::size_t counted = 0;                              // steps that `links` is of
  Duration counted_time{0};                             // which took so long
  std::size_t followed = 0;  // the step whose critical path is known: a counted one of about the median time
  std::vector<sim::PathSegment> path;                     // of that step; empty: a step has too many events
  std::shared_ptr<const sim::ResourceTimeline> timeline;  // for names on the path
  std::vector<std::vector<comm::Span>> spans;             // [rank], if kept
  sim::Report report;
};

/// Runs it. Throws what the run fails with.
SimulationResult simulate(const SimulationInput& input);

}  // namespace taxon::planner
