#include "apps/taxon/commands/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "apps/taxon/commands/command.h"
#include "base/failure.h"
#include "base/version.h"
#include "data/abandoned.h"
#include "data/held_folder.h"
#include "exchange/levels/levels.h"
#include "job/core_watch.h"
#include "job/inputs.h"
#include "job/outputs.h"
#include "job/process.h"
#include "job/recipes.h"
#include "job/run_folder.h"
#include "launch/host.h"
#include "launch/host_memory.h"
#include "launch/identity.h"
#include "launch/local_launcher.h"
#include "launch/stop_signals.h"
#include "planner/dry_run.h"
#include "train/train.h"

namespace taxon::app {
namespace {

train::ReplayLog read_order(const data::Storage& storage, const std::string& file) {
  const std::vector<std::byte> bytes = storage.read(file);
  return train::parse_order({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

job::Existing existing(const TrainArguments& arguments) {
  if (!arguments.resume.empty()) return job::Existing::Resume;
  return arguments.overwrite ? job::Existing::Overwrite : job::Existing::Refuse;
}

/// The step of --resume=STEP; none for the newest, or where nothing resumes.
std::optional<std::int64_t> step_to_resume(const TrainArguments& arguments) {
  const std::string& text = arguments.resume;
  if (text.empty() || text == TrainArguments::kNewest) return std::nullopt;
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0)
    throw Error(ErrorKind::Usage,
                fmt::format("--resume={} is no step of a checkpoint: say --resume, or --resume=1200", text));
  return step;
}

/// One rank's run, from its inputs to its outputs.
class RankRun {
 public:
  RankRun(const TrainArguments& arguments, const plan::Plan& plan, const launch::Identity& identity,
          std::optional<launch::Note> note, const std::string& out)
      : arguments_(arguments),
        plan_(plan),
        identity_(identity),
        note_(note),
        out_(out),
        storage_(files_, out) {}

  int run(control::Secret secret) {
    auto started = std::chrono::steady_clock::now();
    std::optional<job::RunFolder> folder;
    if (is_root()) folder.emplace(out_, existing(arguments_), say);
    job::TrainingInputs inputs =
        job::open_training_inputs(plan_, storage_, identity_.rank, identity_.local_world_size);
    // Until here a signal ends the process at once; from here on in order.
    const std::atomic<bool>& stop = launch::install_stop_signals();
    job::ProcessOptions options;
    options.identity = identity_;
    options.secret = std::move(secret);
    options.version = version_number();
    options.stop = &stop;
    options.say = say;
    options.note = note_;
    options.alone_computes_here = true;
    if (arguments_.follow_order.empty())
      options.expendable = exchange::expendable_ranks(plan_, identity_.world_size);
    job::Process process(plan_, std::move(options));
    try {
      return train_in(process, folder ? &*folder : nullptr, std::move(inputs), stop, started);
    } catch (const std::exception& error) {
      process.abandon(error_from(error));
      throw;
    }
  }

 private:
  bool is_root() const { return identity_.rank == 0; }

  int train_in(job::Process& process, job::RunFolder* folder, job::TrainingInputs inputs,
               const std::atomic<bool>& stop, std::chrono::steady_clock::time_point started) {
    // Ranks that share its cores without its launcher's knowing are met only now.
    if (process.threads() != job::compute_threads(plan_, identity_.local_world_size)) {
      plan::Plan told = plan_;
      told.threads = process.threads();
      inputs = job::open_training_inputs(told, storage_, identity_.rank, identity_.local_world_size);
    }
    if (!is_root()) inputs.datasets.faults->rest();  // all find the same before the run, and rank 0 tells
    if (is_root()) data::remove_abandoned_files(out_);
    job::Outputs outputs(
        storage_,
        {.folder = out_,
         .run = folder,
         .role = is_root() ? job::Outputs::Role::Writer : job::Outputs::Role::Listener,
         .terminal = isatty(STDERR_FILENO) ? job::Outputs::Terminal::Live : job::Outputs::Terminal::Plain,
         .colour = std::getenv("NO_COLOR") == nullptr && isatty(STDERR_FILENO),
         .detail = arguments_.verbose ? report::Detail::All : report::Detail::Screen,
         .result = arguments_.json ? job::OutputsOptions::Result::Json : job::OutputsOptions::Result::Text});
    train::TrainOptions train;
    train.plan = plan_;
    train.out = out_;
    train.start =
        arguments_.resume.empty() ? train::TrainOptions::Start::Fresh : train::TrainOptions::Start::Resume;
    train.resume_step = step_to_resume(arguments_);
    train.assignments = arguments_.overrides;
    train.version = version_number();
    train.memory = {launch::host_id(), launch::host_memory().available};
    train.clock_offset = process.clock_offset();
    train.stop = &stop;
    train.failures = &process.failures();
    train.record_order = !arguments_.record_order.empty();
    std::optional<train::ReplayLog> order;
    if (!arguments_.follow_order.empty()) order = read_order(storage_, arguments_.follow_order);
    if (order) train.follow = &*order;
    launch::CorePressure pressure;
    job::CoreWatch watch(outputs, {.waiting = plan_.waiting,
                                   .threads = process.threads(),
                                   .cores = process.cores(),
                                   .say = log_of(process, outputs),
                                   .pressure = [&pressure] { return pressure.take(); }});
    train::TrainContext world{process.runtime(), *inputs.model, inputs.datasets, storage_, watch};
    train::Outcome outcome;
    process.run(capture(train::train(world, std::move(train)), &outcome));
    process.leave();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (outcome.order) write_file(arguments_.record_order, train::to_text(*outcome.order));
    if (!is_root()) tell_of_faults(*inputs.datasets.faults);
    if (is_root()) outputs.finish(outcome, watch.use(), seconds);
    if (outcome.end == train::Outcome::End::Interrupted) return exit_code(ErrorKind::Interrupted);
    return outcome.lost.empty() ? 0 : launch::kWithoutLostExit;
  }

  /// One rank a machine speaks of its cores; rank 0 above its line of progress.
  std::function<void(const std::string&)> log_of(const job::Process& process, job::Outputs& outputs) const {
    if (identity_.rank == 0) return [&outputs](const std::string& line) { outputs.noticed(line); };
    if (!process.is_first_of_machine()) return {};
    return [rank = identity_.rank](const std::string& line) { say(fmt::format("rank {}: {}", rank, line)); };
  }

  /// Of this rank's share: rank 0 has told of its own on the way.
  void tell_of_faults(data::FaultLog& faults) const {
    if (const auto news = faults.rest()) say(fmt::format("rank {}: {}", identity_.rank, *news));
  }

  static task::Task<void> capture(task::Task<train::Outcome> training, train::Outcome* outcome) {
    *outcome = co_await training;
  }

  const TrainArguments& arguments_;
  const plan::Plan& plan_;
  const launch::Identity& identity_;
  const std::optional<launch::Note> note_;
  const std::string out_;
  data::FileStorage files_;
  data::HeldFolder storage_;
};

std::vector<plan::Problem> problems_of_order(const TrainArguments& arguments, const plan::Plan& plan,
                                             int world_size) {
  std::vector<plan::Problem> problems;
  if (!arguments.record_order.empty()) problems = train::problems_of_recording(plan);
  if (arguments.follow_order.empty()) return problems;
  const train::ReplayLog order = read_order(data::FileStorage(), arguments.follow_order);
  for (plan::Problem& problem : train::problems_of_following(plan, world_size, order, arguments.follow_order))
    problems.push_back(std::move(problem));
  return problems;
}

/// Local workers read the recipe, each for itself: of a pipe only the first reader would get it.
void require_file(const std::string& recipe) {
  std::error_code error;
  const auto status = std::filesystem::status(recipe, error);
  if (std::filesystem::is_other(status))
    throw Error(
        ErrorKind::Usage,
        fmt::format("{} is no file, and each of several workers reads the recipe: write it to one", recipe));
}

int run(const TrainArguments& arguments, const launch::Environment& env) {
  if (arguments.workers > 1 && !env.contains(kLocalWorker)) require_file(arguments.recipe);
  plan::Plan plan = job::read_recipe(arguments.recipe, arguments.overrides);
  std::vector<plan::Problem> problems;
  launch::Identification who = launch::identify(launch::with_address(plan, env));
  for (const std::string& sentence : who.problems) problems.push_back({"environment", sentence});
  launch::Identity identity = who.identity;
  bool local_worker = env.contains(kLocalWorker);
  bool launches = arguments.workers > 0 && !local_worker;
  if (launches && identity.world_size > 1)
    problems.push_back(
        {"--workers",
         fmt::format("{} has started this process as one of {} already: drop --workers, or the launcher",
                     identity.origin, identity.world_size)});
  int world_size = launches ? arguments.workers : identity.world_size;
  for (plan::Problem& problem : job::check_run(plan, world_size)) problems.push_back(std::move(problem));
  plan::require_legal(problems);
  plan::require_legal(problems_of_order(arguments, plan, world_size));
  step_to_resume(arguments);

  std::string out = arguments.out.empty() ? "runs/" + plan.name : arguments.out;
  if (arguments.dry_run) {
    std::cout << planner::dry_run(plan, world_size,
                                  arguments.all ? planner::Printed::All : planner::Printed::Changes);
    return 0;
  }
  if (launches && arguments.workers > 1) return train_with_local_workers(arguments, plan, out);
  if (identity.rank == 0 && !local_worker) {
    data::FileStorage storage;
    if (!arguments.record_order.empty()) require_writable(storage, arguments.record_order);
    if (world_size > 1) say("recognised " + identity.text);
  }
  RankRun rank(arguments, plan, identity, launch::Note::of(env), out);
  return rank.run(launch::find_secret(plan, env));
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  const launch::Environment environment = launch::process_environment();
  return run_command(environment, [&] { return run(arguments, environment); });
}

int train_with_local_workers(const TrainArguments& arguments, const plan::Plan& plan,
                             const std::string& out) {
  data::FileStorage storage;
  launch::run_apart("opening data set and model", [&] {
    planner::require_divisible(plan, job::open_training_inputs(plan, storage, 0, arguments.workers),
                               arguments.workers);
  });
  if (!arguments.record_order.empty()) require_writable(storage, arguments.record_order);
  launch::find_secret(plan, launch::process_environment());
  job::check_run_folder(out, existing(arguments));
  launch::LocalLaunch launch;
  launch.workers = arguments.workers;
  launch.command_line = arguments.command_line;
  launch.main = arguments.main;
  launch.environment = {{kLocalWorker, "1"}};
  launch.say = say;
  launch.output = arguments.worker_output;
  launch.on_stop = arguments.on_stop;
  launch.stopped = arguments.stopped;
  launch.deadline = std::chrono::milliseconds(std::llround(plan.control.deadline_seconds * 1e3));
  if (arguments.follow_order.empty())
    for (Rank rank : exchange::expendable_ranks(plan, arguments.workers))
      launch.expendable.push_back(rank.value());
  return launch::run_workers(launch);
}

}  // namespace taxon::app
