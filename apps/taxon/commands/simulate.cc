#include "apps/taxon/commands/simulate.h"

#include <fmt/format.h>

#include <iostream>

#include "apps/taxon/commands/command.h"
#include "base/error.h"
#include "base/problems.h"
#include "job/recipes.h"
#include "plan/nearest.h"
#include "planner/simulation.h"
#include "planner/simulation_report.h"

namespace taxon::app {
namespace {

const planner::FidelityRow* find_fidelity(const std::string& name, Problems& problems) {
  std::vector<std::string> names;
  for (const planner::FidelityRow& row : planner::fidelity_table()) {
    if (row.name == name) return &row;
    names.emplace_back(row.name);
  }
  problems.add(fmt::format("--fidelity is \"{}\"; known are {}{}", name, fmt::join(names, ", "),
                           plan::suggestion(plan::nearest(name, names))));
  return nullptr;
}

/// What is simulated is the plan's steps, not its tests, checkpoints and reports.
plan::Plan steps_alone(plan::Plan plan, std::int64_t steps) {
  plan.length = {};
  plan.length.steps = steps;
  plan.evaluation.every_epochs = 0;
  plan.checkpoint = {.every_epochs = 0, .every_steps = 0};
  plan.report.trace = false;
  plan.report.hash_steps = 0;
  return plan;
}

int run(const SimulateArguments& arguments) {
  const planner::SimulationInput input = prepare_simulation(arguments);
  const planner::SimulationResult result = simulate(input);
  std::cout << to_text(input, result);
  if (!arguments.json.empty()) write_file(arguments.json, to_json(input, result));
  if (!arguments.trace.empty()) {
    write_file(arguments.trace, planner::trace_of(result));
    std::cout << "trace: " << arguments.trace << "\n";
  }
  return 0;
}

/// True also where the recipe can't be read, which is told otherwise.
bool names_known_rule(const SimulateArguments& arguments, const plan::Catalogue& known) try {
  return known.find_rule(plan::read_plan(arguments.recipe, arguments.overrides).optimiser.rule) != nullptr;
} catch (const Error&) {
  return true;
}

void add_misfits(const plan::ModelProfile& profile, const planner::FidelityRow& fidelity,
                 Problems& problems) {
  if (fidelity.has_models && !plan::is_measured(profile))
    problems.add(fmt::format(
        "--fidelity {} counts operations of its models by itself: --profile must have measured times",
        fidelity.name));
  if (!fidelity.has_models && profile.tensor > 1)
    problems.add(
        fmt::format("the profile is of one of {} members' parts of layers, and --fidelity {} does not "
                    "know what they hand on: give --fidelity exact",
                    profile.tensor, fidelity.name));
}

}  // namespace

planner::SimulationInput prepare_simulation(const SimulateArguments& arguments) {
  planner::SimulationInput input;
  Problems problems;
  input.fidelity = find_fidelity(arguments.fidelity, problems);
  // Names of models and of an unknown rule are told below, beside what the other files lack.
  plan::Catalogue with_keys = job::catalogue();
  with_keys.may_lack_models = true;
  if (!names_known_rule(arguments, with_keys)) with_keys.rules.clear();
  const bool has_plan = problems.collect([&] {
    input.plan =
        steps_alone(plan::read_plan(arguments.recipe, arguments.overrides, &with_keys), arguments.steps);
  });
  if (arguments.cluster.empty()) problems.add("--cluster is missing: the file of a cluster (see clusters/)");
  const bool has_cluster = !arguments.cluster.empty() && problems.collect([&] {
    input.cluster = plan::read_cluster(arguments.cluster, arguments.workers);
  });
  if (!arguments.profile.empty())
    problems.collect([&] { input.profile = plan::read_profile(arguments.profile); });
  input.ranks = arguments.workers;
  if (input.ranks == 0 && has_cluster) input.ranks = plan::capacity(input.cluster);
  if (has_plan && input.ranks > 0) {
    plan::Catalogue known = job::catalogue();
    // A profile stands for a model that may not be there to train.
    const bool stands_in = input.profile && !(input.fidelity && input.fidelity->has_models);
    if (const auto* data = known.find_dataset(input.plan.data.dataset); stands_in && data)
      known.models.push_back({.name = input.profile->model, .takes_tokens = data->gives_tokens});
    for (const plan::Problem& problem : plan::check_plan(input.plan, input.ranks, known))
      problems.add(fmt::format("{}: {}", problem.key, problem.sentence));
    if (!plan::describe(input.plan.emulation).empty())
      problems.add(
          "emulation is of real runs: say in the cluster file how fast devices are, and who is slow "
          "(device, stragglers)");
    if (input.profile)
      for (const std::string& problem : plan::profile_mismatches(*input.profile, input.plan, input.ranks))
        problems.add(fmt::format("{}: {}", arguments.profile, problem));
  }
  if (input.profile && input.fidelity != nullptr) add_misfits(*input.profile, *input.fidelity, problems);
  input.keep_spans = !arguments.trace.empty();
  problems.require_none();
  return input;
}

int run_simulate(const SimulateArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
