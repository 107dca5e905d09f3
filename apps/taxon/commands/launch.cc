#include "apps/taxon/commands/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "apps/taxon/commands/command.h"
#include "control/secret.h"
#include "exchange/levels/levels.h"
#include "job/recipes.h"
#include "launch/ssh_launcher.h"

namespace taxon::app {
namespace {

std::vector<plan::Problem> problems_of_hosts(const LaunchArguments& arguments) {
  std::vector<plan::Problem> problems;
  std::set<std::string> seen;
  for (const std::string& host : arguments.hosts) {
    if (host.empty() || host.starts_with("-"))
      problems.push_back({"--hosts", fmt::format("'{}' is no host", host)});
    if (!seen.insert(host).second)
      problems.push_back(
          {"--hosts", fmt::format("{} is there twice: several ranks of a host are its --slots", host)});
  }
  if (const auto hosts = static_cast<int>(arguments.hosts.size());
      hosts > 0 && arguments.slots > launch::AgentJob::kMostRanks / hosts)
    problems.push_back({"--slots", fmt::format("{} of each of {} hosts are more than {} ranks",
                                               arguments.slots, hosts, launch::AgentJob::kMostRanks)});
  if (arguments.train.workers > 0)
    problems.push_back({"--workers", "starts ranks on this host: say --slots for how many each host has"});
  return problems;
}

int run(const LaunchArguments& arguments) {
  plan::Plan plan = job::read_recipe(arguments.train.recipe, arguments.train.overrides);
  launch::AgentJob job;
  job.slots = arguments.slots;
  job.world_size = static_cast<int>(std::min<std::int64_t>(
      launch::AgentJob::kMostRanks, std::int64_t{arguments.slots} * std::ssize(arguments.hosts)));
  std::vector<plan::Problem> problems = problems_of_hosts(arguments);
  for (plan::Problem& problem : job::check_run(plan, job.world_size)) problems.push_back(std::move(problem));
  plan::require_legal(problems);
  const control::Secret secret = launch::find_secret(plan, launch::process_environment());
  job.secret = secret.empty() ? control::random_secret_text()
                              : std::string(secret.bytes().begin(), secret.bytes().end());
  job.plan = plan::write_plan(plan);
  job.deadline_ms = std::max(1LL, std::llround(plan.control.deadline_seconds * 1e3));
  job.folder = std::filesystem::current_path().string();
  job.words = arguments.words;
  job.words.at(arguments.recipe_word) = launch::AgentJob::kPlanWord;
  if (!plan.control.secret_file.empty())  // its content is handed on
    job.words.insert(job.words.end(), {"--set", "control.secret_file=\"\""});
  if (arguments.train.follow_order.empty())
    for (Rank rank : exchange::expendable_ranks(plan, job.world_size)) job.expendable.push_back(rank.value());
  return launch::launch_over_ssh({.hosts = arguments.hosts,
                                  .user = arguments.user,
                                  .ssh = arguments.ssh,
                                  .job = std::move(job),
                                  .say = say});
}

}  // namespace

int run_launch(const LaunchArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
