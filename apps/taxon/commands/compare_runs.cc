#include "apps/taxon/commands/compare_runs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

#include "apps/taxon/commands/train.h"
#include "base/error.h"
#include "data/storage.h"
#include "job/inputs.h"
#include "job/recipes.h"

namespace taxon::app {
namespace {

constexpr int kTests = 12;             // of a run, for its curves
constexpr int kTimedTests = 36;        // of a run that may be cut short
constexpr double kTracedSteps = 2000;  // a trace of more is large

std::string read_text(const std::string& path) {
  const data::FileStorage storage;
  const auto bytes = storage.read(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool sets(const std::vector<std::string>& overrides, std::string_view key) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const std::string& text) { return text.starts_with(std::string(key) + "="); });
}

/// What all runs of a comparison have in common, so that they can be compared.
std::vector<std::string> common_overrides(const CompareArguments& arguments, std::uint64_t seed) {
  std::vector<std::string> common = {fmt::format("seed={}", seed)};
  if (arguments.samples > 0) common.push_back(fmt::format("length.samples={}", arguments.samples));
  if (arguments.seconds > 0) common.push_back(fmt::format("length.seconds={}", arguments.seconds));
  return common;
}

/// Tests often enough for a curve, and a trace where it stays small; the user's own words come later and win.
std::vector<std::string> observing_overrides(const CompareArguments& arguments, const plan::Plan& plan,
                                             std::int64_t train_size) {
  const auto total = static_cast<double>(plan::total_samples(plan, arguments.workers, train_size));
  const auto batch = static_cast<double>(plan::global_batch(plan, arguments.workers));
  const int tests = plan.length.seconds > 0 ? kTimedTests : kTests;
  std::vector<std::string> own;
  if (!sets(arguments.overrides, "evaluation.every_epochs"))
    own.push_back(fmt::format("evaluation.every_epochs={}", total / static_cast<double>(train_size) / tests));
  if (!sets(arguments.overrides, "report.trace") && total / batch <= kTracedSteps)
    own.push_back("report.trace=true");
  return own;
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// The plans of the recipes as the user wants them, without what the comparison adds to watch them.
std::vector<ComparedRun> read_recipes(const CompareArguments& arguments, Problems& problems) {
  std::vector<ComparedRun> runs;
  for (const std::string& recipe : arguments.recipes) {
    ComparedRun run{.recipe = recipe};
    auto read = [&] {
      run.plan = job::read_recipe(recipe, arguments.overrides);
      std::vector<std::string> common =
          common_overrides(arguments, runs.empty() ? run.plan.seed : runs.front().plan.seed);
      if (!arguments.seeds.empty() || sets(arguments.overrides, "seed")) common.erase(common.begin());
      run.overrides = common;
      run.plan = job::read_recipe(recipe, joined(common, arguments.overrides));
      run.plan.resolved = {};
      plan::require_legal(job::check_run(run.plan, arguments.workers));
    };
    // Mistakes of reading name the file themselves.
    if (problems.collect(read, recipe)) runs.push_back(std::move(run));
  }
  return runs;
}

void check_names(const std::vector<ComparedRun>& runs, Problems& problems) {
  std::map<std::string, std::string> first;
  for (const ComparedRun& run : runs) {
    const auto [found, is_new] = first.try_emplace(run.plan.name, run.recipe);
    if (!is_new)
      problems.add(fmt::format("{} and {} have the same name, \"{}\": give one another `name`", found->second,
                               run.recipe, run.plan.name));
  }
}

/// Results of different data do not compare, and times of different hosts.
void check_equal(const std::vector<ComparedRun>& runs, Problems& problems) {
  for (const ComparedRun& run : runs)
    if (!(run.plan.data == runs.front().plan.data))
      problems.add(
          fmt::format("{} and {} train on different data: make their `data` sections equal, or set "
                      "what differs with --set data.KEY=VALUE",
                      runs.front().recipe, run.recipe));
    else if (run.plan.evaluation.split != runs.front().plan.evaluation.split)
      problems.add(fmt::format(
          "{} and {} are evaluated on different samples: make `evaluation.split` the same, with --set "
          "evaluation.split=test",
          runs.front().recipe, run.recipe));
    else if (!(run.plan.emulation == runs.front().plan.emulation))
      problems.add(
          fmt::format("{} and {} emulate different hosts: make their `emulation` sections equal, or set "
                      "what differs with --set emulation.KEY=VALUE",
                      runs.front().recipe, run.recipe));
}

/// Builds each model once, so that what is wrong with it is known before anything starts. Returns the size of
/// the training set.
std::int64_t try_ingredients(const std::vector<ComparedRun>& runs, int workers, Problems& problems) {
  const data::FileStorage storage;
  std::vector<plan::ModelPlan> seen;
  std::int64_t size = 1;
  for (const ComparedRun& run : runs) {
    if (std::find(seen.begin(), seen.end(), run.plan.model) != seen.end()) continue;
    seen.push_back(run.plan.model);
    problems.collect(
        [&] { size = job::open_training_inputs(run.plan, storage, 0, workers).datasets.train->size(); },
        run.recipe);
  }
  return size;
}

void check_folder(ComparedRun& run, int workers, Problems& problems) {
  const data::FileStorage storage;
  const std::string plan_file = run.folder + "/plan.yaml", summary_file = run.folder + "/summary.json";
  if (!storage.exists(plan_file)) return;
  const std::string advice = "choose another --out, or remove that folder";
  auto look = [&] {
    plan::Plan before = job::read_recipe(plan_file);
    if (plan::plan_hash(before) != plan::plan_hash(run.plan))
      return problems.add(fmt::format("{} holds a run of another plan: {}", run.folder, advice));
    if (before.resolved.world_size != workers)
      return problems.add(fmt::format("{} holds a run with {} workers, not {}: {}", run.folder,
                                      before.resolved.world_size, workers, advice));
    if (!storage.exists(summary_file)) return;
    run.kept = !report::read_summary(read_text(summary_file), summary_file).interrupted;
  };
  problems.collect(look, run.folder);
}

}  // namespace

std::vector<ComparedRun> plan_runs(const CompareArguments& arguments, Problems& problems) {
  std::vector<ComparedRun> recipes = read_recipes(arguments, problems);
  check_names(recipes, problems);
  check_equal(recipes, problems);
  if (recipes.empty() || !problems.empty()) return {};
  const std::int64_t train_size = try_ingredients(recipes, arguments.workers, problems);
  std::vector<std::uint64_t> seeds = arguments.seeds;
  if (seeds.empty()) seeds.push_back(recipes.front().plan.seed);
  std::vector<ComparedRun> runs;
  for (std::uint64_t seed : seeds)
    for (const ComparedRun& recipe : recipes) {
      ComparedRun run = recipe;
      run.overrides = joined(recipe.overrides, observing_overrides(arguments, recipe.plan, train_size));
      run.overrides = joined(std::move(run.overrides), arguments.overrides);
      if (!arguments.seeds.empty()) run.overrides.push_back(fmt::format("seed={}", seed));
      run.plan = job::read_recipe(run.recipe, run.overrides);
      run.plan.resolved = {};
      run.folder = arguments.out + "/" + run.plan.name;
      if (!arguments.seeds.empty()) run.folder += fmt::format("/seed-{}", seed);
      check_folder(run, arguments.workers, problems);
      runs.push_back(std::move(run));
    }
  return runs;
}

std::string title_of(const ComparedRun& run, const CompareArguments& arguments) {
  if (arguments.seeds.size() < 2) return run.plan.name;
  return fmt::format("{}, seed {}", run.plan.name, run.plan.seed);
}

int train(const ComparedRun& run, const CompareArguments& arguments, const std::atomic<bool>& stopped,
          std::function<void()> on_stop) {
  TrainArguments train;
  train.on_stop = std::move(on_stop);
  train.stopped = &stopped;
  train.recipe = run.recipe;
  train.overrides = run.overrides;
  train.workers = arguments.workers;
  train.out = run.folder;
  train.overwrite = true;  // what is there is incomplete: its times would not be of one piece with the rest
  train.command_line = {arguments.command_line.front(),    "train", run.recipe, "--workers",
                        std::to_string(arguments.workers), "--out", run.folder, "--overwrite"};
  for (const std::string& text : run.overrides) {
    train.command_line.emplace_back("--set");
    train.command_line.push_back(text);
  }
  data::FileStorage storage;
  const std::string log = run.folder + "/log.txt";
  storage.write_atomic(log, {});
  train.worker_output = open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (train.worker_output < 0)
    throw Error(ErrorKind::Output, fmt::format("cannot write {}: {}", log, strerror(errno)));
  try {
    const int code = train_with_local_workers(train, run.plan, run.folder);
    close(train.worker_output);
    return code;
  } catch (...) {
    close(train.worker_output);
    throw;
  }
}

std::string reason(const ComparedRun& run, int code) {
  std::istringstream lines(read_text(run.folder + "/log.txt"));
  const std::set<std::string> echoes = {to_string(ErrorKind::PeerLost), to_string(ErrorKind::Deadline),
                                        to_string(ErrorKind::Transport)};
  std::string echo;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("taxon: broken invariant")) return line.substr(7);
    if (!line.starts_with("taxon: rank ")) continue;
    const auto colon = line.find(": ", 7);
    if (colon == std::string::npos) continue;
    const std::string said = line.substr(7),
                      kind = line.substr(colon + 2, line.find(':', colon + 2) - colon - 2);
    const auto& kinds = all_error_kinds();
    if (std::none_of(kinds.begin(), kinds.end(), [&](ErrorKind k) { return kind == to_string(k); })) continue;
    if (!echoes.contains(kind)) return said;
    if (echo.empty()) echo = said;
  }
  return echo.empty() ? fmt::format("a worker ended with exit code {}; see {}/log.txt", code, run.folder)
                      : echo;
}

RunRecord read_record(const ComparedRun& run) {
  const data::FileStorage storage;
  RunRecord record;
  const std::string summary = run.folder + "/summary.json", metrics = run.folder + "/metrics.jsonl";
  record.finished = report::read_summary(read_text(summary), summary);
  record.finished.run.curve = report::read_curve(read_text(metrics), metrics, record.finished.score);
  record.plan = job::read_recipe(run.folder + "/plan.yaml");
  if (const std::string trace = run.folder + "/trace.json"; storage.exists(trace))
    record.trace = report::read_trace(read_text(trace), trace);
  return record;
}

}  // namespace taxon::app
