#include "apps/taxon/commands/faults.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>

#include "apps/taxon/commands/command.h"
#include "base/error.h"
#include "base/units.h"
#include "base/version.h"
#include "data/split.h"
#include "faults/search.h"
#include "job/recipes.h"
#include "launch/stop_signals.h"

namespace taxon::app {
namespace {

using Clock = std::chrono::steady_clock;

// A signal handler reaches nothing but static storage.
std::atomic<std::uint64_t> seed_in_trial{0};

/// A broken invariant ends the process: it must not take its seed along.
void on_abort(int) {
  char text[] = "taxon: that was seed 00000000000000000000: replay it with --replay\n";
  char* digit = text + sizeof "taxon: that was seed 00000000000000000000" - 2;
  for (std::uint64_t rest = seed_in_trial; rest > 0; rest /= 10)
    *digit-- = static_cast<char>('0' + rest % 10);
  [[maybe_unused]] auto written = write(STDERR_FILENO, text, sizeof text - 1);
}

faults::Job make_job(const plan::Plan& recipe, const data::Datasets& datasets) {
  faults::Job job;
  job.recipe = recipe;
  job.known = job::catalogue();
  job.datasets = &datasets;
  job.make_model = [&datasets](const plan::Plan& plan, int rank) {
    return model::make_model({.plan = &plan.model,
                              .shape = datasets.train->shape(),
                              .compute = plan.precision.compute,
                              .seed = plan.seed,
                              .rank = rank});
  };
  return job;
}

/// How whoever reads a line can see for himself.
std::string replay_command(const FaultArguments& arguments, std::uint64_t seed) {
  std::string words = fmt::format("taxon simulate {} --faults --replay {}", arguments.recipe, seed);
  for (const std::string& assignment : arguments.overrides) words += fmt::format(" --set {}", assignment);
  return words;
}

void print_findings(const FaultArguments& arguments, const faults::Trial& trial) {
  for (const std::string& finding : trial.findings)
    std::cout << fmt::format("seed {}: {}; replay: {}\n", trial.seed, finding,
                             replay_command(arguments, trial.seed))
              << std::flush;
}

void print_trial(const faults::Trial& trial) {
  std::cout << fmt::format("seed {}: {}\n", trial.seed, faults::describe(trial.shape));
  for (const std::string& line : faults::describe(trial.schedule)) std::cout << "  fault: " << line << "\n";
  for (std::size_t rank = 0; rank < trial.seen.ranks.size(); ++rank) {
    const sim::RankUse& use = trial.seen.report.ranks[rank];
    const std::string how = use.killed ? "killed" : use.error ? faults::message_of(use.error) : "complete";
    std::cout << fmt::format("  rank {}: {} steps, ended at {}: {}\n", rank, trial.seen.ranks[rank].reported,
                             format_seconds(to_seconds(use.end - Instant())), how.substr(0, how.find('\n')));
  }
  if (trial.seen.report.hang)
    for (const std::string& line : trial.seen.report.hang->lines) std::cout << "  | " << line << "\n";
  std::cout << fmt::format("  {}, {} messages, trace {:016x}\n", to_string(trial.ending),
                           trial.seen.report.messages, trial.seen.report.trace);
}

void print_tally(const faults::Tally& tally, double seconds) {
  std::cout << fmt::format("{} schedules in {} ({:.0f}/s): {} messages in {} of virtual time\n",
                           tally.all.trials, format_seconds(seconds),
                           static_cast<double>(tally.all.trials) / seconds, tally.messages,
                           format_seconds(tally.seconds));
  for (const auto& [ending, count] : tally.all.endings)
    std::cout << fmt::format("  {:>6} {}\n", count, to_string(ending));
  std::cout << fmt::format("  {:>6} of them resumed from their checkpoints, to the end\n", tally.all.resumed);
  std::cout << fmt::format("  {:>6} with findings\n", tally.all.findings);
}

void write_table(const FaultArguments& arguments, const faults::Tally& tally) {
  std::string command =
      fmt::format("taxon simulate {} --faults --seeds {}", arguments.recipe, arguments.seeds);
  for (const std::string& assignment : arguments.overrides) command += fmt::format(" --set {}", assignment);
  write_file(
      arguments.table,
      fmt::format("# Schedules of faults, by what the runs were made of\n"
                  "`{}`, Taxon {}: {} schedules with {} messages, {} with findings. A schedule counts in "
                  "one line for each key.\n\n{}",
                  command, version_number(), tally.all.trials, tally.messages, tally.all.findings,
                  faults::table_of(tally)));
}

/// A line of progress every two seconds.
class Progress {
 public:
  explicit Progress(faults::Seeds seeds) : total_(seeds.last - seeds.first + 1) {}
  void done() {
    ++done_;
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kPause;
    std::cerr << fmt::format("taxon: {} of {} schedules, {:.0f}/s\n", done_, total_,
                             static_cast<double>(done_) / seconds());
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  static constexpr std::chrono::seconds kPause{2};
  std::uint64_t done_ = 0, total_;
  Clock::time_point begin_ = Clock::now(), next_ = begin_ + kPause;
};

int run(const FaultArguments& arguments) {
  const plan::Plan recipe = job::read_recipe(arguments.recipe, arguments.overrides);
  const faults::Seeds seeds = arguments.replay ? faults::Seeds{*arguments.replay, *arguments.replay}
                                               : faults::parse_seeds(arguments.seeds);
  const data::FileStorage storage;
  const data::Datasets datasets = data::open_split(recipe, storage);
  const faults::Job job = make_job(recipe, datasets);
  if (!arguments.table.empty()) write_table(arguments, {});  // what can't be written is known at once
  const std::atomic<bool>& stop = launch::install_stop_signals();
  seed_in_trial = seeds.first;
  std::signal(SIGABRT, on_abort);
  Progress progress(seeds);
  const faults::Tally tally = faults::search(job, seeds, [&](const faults::Trial& trial) {
    if (arguments.replay) print_trial(trial);
    print_findings(arguments, trial);
    progress.done();
    seed_in_trial = trial.seed + 1;
    return stop ? faults::GoOn::No : faults::GoOn::Yes;
  });
  if (!arguments.replay) print_tally(tally, progress.seconds());
  if (!arguments.table.empty()) write_table(arguments, tally);
  if (tally.all.findings > 0) return exit_code(ErrorKind::Internal);
  const bool whole = tally.all.trials == seeds.last - seeds.first + 1;
  return whole ? 0 : exit_code(ErrorKind::Interrupted);
}

}  // namespace

int run_faults(const FaultArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
