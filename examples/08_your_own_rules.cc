// A program with rows of its own, each in a header beside this file, that trains a recipe which names some of
// them as one rank of whatever job its launcher says: 08_your_own_rules RECIPE [KEY.PATH=VALUE...]. Rank 0
// says beforehand where the recipe stands on the axes and what it sends, simulates it on a described cluster,
// and compares: where workers keep step both come to the same bits.
#include <taxon/error.h>
#include <taxon/simulate.h>
#include <taxon/train.h>

#include <iostream>

#include "crossed.h"
#include "dynamic_ssp.h"
#include "lars.h"
#include "looped_bfs.h"
#include "median.h"
#include "star.h"
#include "stochastic_top_k.h"

const taxon::exchange::TopologyRow kTopologies[] = {median()};
const taxon::exchange::ConsistencyRow kConsistencies[] = {dynamic_ssp()};
const taxon::optim::RuleRow kRules[] = {lars()};
const taxon::codec::CodecRow kCodecs[] = {stochastic_top_k()};
const taxon::comm::CollectiveRow kCollectives[] = {star()};
const taxon::program::ScheduleRow kPipelines[] = {looped_bfs(), crossed()};
const taxon::Extensions kOwn{.topologies = kTopologies,
                             .rules = kRules,
                             .codecs = kCodecs,
                             .collectives = kCollectives,
                             .consistencies = kConsistencies,
                             .pipelines = kPipelines};

struct Quiet final : taxon::Observer {
  void started(const taxon::RunInfo&) override {}
  void stepped(const taxon::StepReport&) override {}
  void evaluated(const taxon::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { std::cerr << sentence << "\n"; }
};

/// On hosts that are only described, with 1 Gbit/s between them. Every other one is half as fast.
taxon::SimulationResult simulate(const taxon::Plan& plan, int ranks) {
  taxon::SimulationInput input{.plan = plan, .ranks = ranks, .own = kOwn};
  for (int rank = 0; rank < ranks; ++rank)
    input.cluster.hosts.push_back({.name = "host" + std::to_string(rank),
                                   .device = {.flops = 1e9 / (1 + rank % 2), .memory_bandwidth = 1e9},
                                   .network = {.latency = 50e-6, .overhead = 5e-6, .bandwidth = 125e6}});
  input.fidelity = &taxon::planner::fidelity_table().front();  // exact: every rank trains its own model
  return taxon::simulate(input);
}

int main(int argc, char** argv) try {
  const taxon::Plan plan =
      taxon::read_recipe(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc}, kOwn);
  taxon::Job job = taxon::Job::from_environment(plan, {.own = kOwn});
  taxon::plan::require_legal(taxon::check_run(plan, job.size(), kOwn));
  taxon::TrainingInputs inputs = open_training_inputs(job);
  Quiet observer;
  const taxon::Outcome outcome = train(job, *inputs.model, inputs.datasets, observer);
  job.leave();
  if (job.rank() != 0) return 0;

  std::cout << taxon::dry_run(plan, job.size(), taxon::Printed::Changes, kOwn);
  const taxon::SimulationResult simulated = simulate(plan, job.size());
  std::cout << "trained: accuracy " << outcome.test.scores["accuracy"] << "; simulated: accuracy "
            << simulated.outcome.test.scores["accuracy"] << ", " << taxon::to_seconds(simulated.median)
            << " s a step, "
            << (simulated.outcome.parameter_hash == outcome.parameter_hash ? "the same bits" : "other bits")
            << "\n";
} catch (const taxon::Error& error) {
  std::cerr << error.what() << "\n";
  return exit_code(error.kind());
}
