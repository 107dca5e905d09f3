#include "apps/taxon/commands/compare_simulation.h"

#include <fmt/format.h>

#include <limits>
#include <map>

#include "apps/taxon/commands/command.h"
#include "apps/taxon/commands/simulate.h"
#include "job/outputs.h"
#include "job/recipes.h"
#include "plan/axes.h"
#include "report/summary.h"
#include "train/report/trace.h"

namespace taxon::app {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Mean over ranks and counted steps.
double mean(const planner::SimulationResult& result, Duration train::StepReport::*member) {
  double sum = 0, count = 0;
  for (const auto& steps : result.by_rank)
    for (std::size_t i = result.warm_up; i < steps.size(); ++i, ++count) sum += to_seconds(steps[i].*member);
  return count > 0 ? sum / count : 0;
}

report::System system_of(const planner::SimulationInput& input, const planner::SimulationResult& result) {
  report::SystemRun run;
  run.seed = input.plan.seed;
  run.score = run.loss = kNone;
  run.seconds_per_step = to_seconds(result.median);
  run.samples_per_second = result.samples_per_second > 0 ? result.samples_per_second : kNone;
  if (const auto& late = result.outcome.staleness; !late.empty())
    run.staleness = {report::mean_staleness(late), static_cast<double>(late.size() - 1), late};
  run.codecs = report::worth_of(job::codec_uses(result.outcome));
  run.bytes_per_step = result.outcome.bytes_sent_per_step;
  run.compute_seconds = mean(result, &train::StepReport::compute);
  run.exposed_seconds = mean(result, &train::StepReport::exposed);
  run.data_seconds = mean(result, &train::StepReport::data_wait);
  report::System system{
      .name = input.plan.name, .axes = plan::axes_of(result.info.plan, job::catalogue()), .runs = {run}};
  for (const auto& spans : result.spans) {
    system.trace.emplace_back();
    for (auto& span : train::unpack_spans(train::pack_spans(spans, Duration(0))))
      system.trace.back().push_back(
          {span.track, span.name, span.unit, span.bytes, span.begin_us, span.duration_us});
  }
  return system;
}

planner::SimulationInput prepare(const CompareArguments& arguments, const std::string& recipe) {
  SimulateArguments simulate;
  simulate.recipe = recipe;
  simulate.cluster = arguments.cluster;
  simulate.overrides = arguments.overrides;
  simulate.workers = arguments.workers;
  simulate.profile = arguments.profile;
  simulate.steps = arguments.steps;
  planner::SimulationInput input = prepare_simulation(simulate);
  input.keep_spans = true;
  return input;
}

}  // namespace

report::Comparison compare_simulated(const CompareArguments& arguments, Problems& problems, int* code) {
  std::vector<planner::SimulationInput> inputs;
  std::map<std::string, std::string> first;
  for (const std::string& recipe : arguments.recipes) {
    auto read = [&] { inputs.push_back(prepare(arguments, recipe)); };
    if (!problems.collect(read, recipe)) continue;
    const auto [found, is_new] = first.try_emplace(inputs.back().plan.name, recipe);
    if (!is_new)
      problems.add(fmt::format("{} and {} have the same name, \"{}\": give one another `name`", found->second,
                               recipe, inputs.back().plan.name));
  }
  problems.require_none();
  *code = 0;
  report::Comparison comparison;
  comparison.origin = report::Origin::Simulated;
  for (const planner::SimulationInput& input : inputs) {
    say(fmt::format("simulating {}", input.plan.name));
    try {
      const planner::SimulationResult result = simulate(input);
      comparison.systems.push_back(system_of(input, result));
      comparison.subject = fmt::format(
          "{} ({} parameters) on {} ranks of the cluster {}, {} steps, not trained to the end.",
          input.plan.model.name, result.info.parameters, input.ranks, input.cluster.name, arguments.steps);
      comparison.notes = {fmt::format("Costs of passes: {}.", result.costs)};
    } catch (const Error& error) {
      if (*code == 0) *code = exit_code(error.kind());
      comparison.systems.push_back({.name = input.plan.name,
                                    .axes = plan::axes_of(input.plan, job::catalogue()),
                                    .failures = {error.what()}});
    }
  }
  return comparison;
}

}  // namespace taxon::app
