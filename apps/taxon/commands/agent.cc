#include "apps/taxon/commands/agent.h"

#include <fmt/format.h>

#include "apps/taxon/commands/command.h"
#include "base/failure.h"
#include "data/storage.h"
#include "job/inputs.h"
#include "job/recipes.h"
#include "launch/agent.h"
#include "planner/dry_run.h"

namespace taxon::app {
namespace {

/// What keeps this host from its part of the job.
std::vector<std::string> problems_of(const launch::AgentJob& job) {
  std::vector<std::string> problems;
  try {
    const plan::Catalogue known = job::catalogue();
    const plan::Plan plan = plan::parse_plan(job.plan, "the recipe", {}, &known);
    for (const plan::Problem& problem : job::check_run(plan, job.world_size))
      problems.push_back(problem.key + ": " + problem.sentence);
    if (problems.empty())
      planner::require_divisible(
          plan, job::open_training_inputs(plan, data::FileStorage(), job.first_rank, job.slots),
          job.world_size);
  } catch (const std::exception& thrown) {
    const Error error = error_from(thrown);
    problems.push_back(fmt::format("{}: {}", to_string(error.kind()), error.what()));
  }
  return problems;
}

}  // namespace

int run_agent() {
  return run_alone([] { return launch::serve({.say = say, .check = problems_of}); });
}

}  // namespace taxon::app
