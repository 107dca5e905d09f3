#include "apps/taxon/commands/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "apps/taxon/commands/command.h"
#include "base/version.h"
#include "data/storage.h"
#include "job/process.h"
#include "launch/local_launcher.h"
#include "launch/stop_signals.h"
#include "net/transport_choice.h"
#include "plan/legality.h"
#include "planner/calibration.h"

namespace taxon::app {
namespace {

/// What calibration needs of a plan: the parts that say how ranks meet and how many threads compute.
plan::Plan plan_of(const CalibrateArguments& arguments) {
  plan::Plan plan;
  plan.name = "calibration";
  plan.transport.kind = arguments.transport;
  plan.threads = arguments.threads;
  return plan;
}

task::Task<void> keep(task::Task<planner::Calibration> measuring, planner::Calibration* result) {
  *result = co_await measuring;
}

int run_rank(const CalibrateArguments& arguments, const launch::Identity& identity,
             const launch::Environment& environment, control::Secret secret) {
  const std::atomic<bool>& stop = launch::install_stop_signals();
  const plan::Plan plan = plan_of(arguments);
  job::ProcessOptions options;
  options.identity = identity;
  options.secret = std::move(secret);
  options.version = version_number();
  options.stop = &stop;
  options.say = say;
  options.note = launch::Note::of(environment);
  job::Process process(plan, std::move(options));
  planner::CalibrationOptions calibration;
  calibration.threads = process.threads();
  calibration.cores = process.cores();
  if (arguments.quick) calibration.seconds = 0.1;
  calibration.stop = &stop;
  calibration.say = identity.rank == 0 ? say : [](const std::string&) {};
  planner::Calibration result;
  process.run(keep(calibrate(&process.runtime(), &calibration), &result));
  process.leave();
  if (identity.rank != 0) return 0;
  write_file(arguments.out, planner::cluster_text(result));
  std::cout << (arguments.json ? to_json(result, arguments.out)
                               : describe(result) + "wrote " + arguments.out + "\n")
            << std::flush;
  return 0;
}

int run(const CalibrateArguments& arguments, const launch::Environment& environment) {
  std::vector<plan::Problem> problems;
  launch::Identification who = launch::identify(environment);
  for (const std::string& sentence : who.problems) problems.push_back({"environment", sentence});
  const bool local_worker = environment.contains(kLocalWorker);
  const bool launches = arguments.workers > 0 && !local_worker;
  if (launches && who.identity.world_size > 1)
    problems.push_back(
        {"--workers",
         fmt::format("{} has started this process as one of {} already: drop --workers, or the launcher",
                     who.identity.origin, who.identity.world_size)});
  const std::vector<std::string> transports = net::transport_names();
  if (std::find(transports.begin(), transports.end(), arguments.transport) == transports.end())
    problems.push_back(
        {"--transport", fmt::format("{} is none of {}", arguments.transport, fmt::join(transports, ", "))});
  else if (std::string missing = net::what_is_missing(net::find_transport_choice(arguments.transport));
           !missing.empty())
    problems.push_back({"--transport", std::move(missing)});
  plan::require_legal(problems);
  if (who.identity.rank == 0 && !local_worker) {
    data::FileStorage storage;
    require_writable(storage, arguments.out);
  }
  if (launches && arguments.workers > 1) {
    launch::LocalLaunch launch;
    launch.workers = arguments.workers;
    launch.command_line = arguments.command_line;
    launch.main = arguments.main;
    launch.environment = {{kLocalWorker, "1"}};
    launch.say = say;
    return launch::run_workers(launch);
  }
  return run_rank(arguments, who.identity, environment, launch::find_secret(plan_of(arguments), environment));
}

}  // namespace

int run_calibrate(const CalibrateArguments& arguments) {
  const launch::Environment environment = launch::process_environment();
  return run_command(environment, [&] { return run(arguments, environment); });
}

}  // namespace taxon::app
