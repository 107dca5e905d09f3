#include "apps/taxon/commands/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <map>
#include <set>

#include "apps/taxon/commands/command.h"
#include "apps/taxon/commands/compare_facts.h"
#include "apps/taxon/commands/compare_runs.h"
#include "apps/taxon/commands/compare_simulation.h"
#include "base/error.h"
#include "base/problems.h"
#include "data/dataset.h"
#include "data/storage.h"
#include "job/recipes.h"
#include "launch/children.h"
#include "launch/stop_signals.h"
#include "report/comparison_page.h"
#include "report/comparison_table.h"

namespace taxon::app {
namespace {

constexpr int kDefaultWorkers = 2;
constexpr const char* kMark = ".comparison";  // in --out: measured or simulated

std::string mark_of(const CompareArguments& arguments) {
  return arguments.simulate ? "simulated\n" : "measured\n";
}

void check_options(const CompareArguments& arguments, Problems& problems) {
  if (arguments.recipes.empty()) problems.add("name at least one recipe");
  if (arguments.out.empty()) problems.add("--out is missing: the folder of the comparison");
  if (arguments.seconds > 0 && arguments.samples > 0)
    problems.add("--seconds and --samples exclude each other: give one");
  if (arguments.target < 0 || arguments.target > 100)
    problems.add("--target-accuracy must be a share up to 1, or per cent up to 100");
  const std::set<std::uint64_t> seeds(arguments.seeds.begin(), arguments.seeds.end());
  if (seeds.size() != arguments.seeds.size()) problems.add("--seeds names a seed twice");
  const std::pair<const char*, bool> real[] = {{"--seconds", arguments.seconds > 0},
                                               {"--samples", arguments.samples > 0},
                                               {"--target-accuracy", arguments.target > 0},
                                               {"--seeds", !arguments.seeds.empty()},
                                               {"--emulated", !arguments.emulated.empty()}};
  for (const auto& [name, given] : real)
    if (arguments.simulate && given)
      problems.add(fmt::format("{} means nothing to --simulate, which runs a few steps only", name));
  const std::pair<const char*, bool> simulated[] = {{"--cluster", !arguments.cluster.empty()},
                                                    {"--profile", !arguments.profile.empty()}};
  for (const auto& [name, given] : simulated)
    if (!arguments.simulate && given) problems.add(fmt::format("{} needs --simulate", name));
}

void check_output(const CompareArguments& arguments, Problems& problems) {
  const data::FileStorage storage;
  if (arguments.out.empty()) return;
  for (const char* name : {"summary.json", "metrics.jsonl", "plan.yaml"})
    if (storage.exists(arguments.out + "/" + name))
      return problems.add(
          fmt::format("{} holds a run of its own ({}): choose another --out", arguments.out, name));
  const std::string path = arguments.out + "/" + kMark;
  if (!storage.exists(path)) {
    std::error_code none;
    if (const std::filesystem::directory_iterator first(arguments.out, none); first != end(first))
      problems.add(fmt::format("{} is no comparison's, and not empty ({}): choose another --out",
                               arguments.out, first->path().filename().string()));
    return;
  }
  const auto bytes = storage.read(path);
  const std::string mark(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (mark != mark_of(arguments))
    problems.add(fmt::format("{} holds another comparison, one that is {}: choose another --out",
                             arguments.out, mark.substr(0, mark.find('\n'))));
}

/// Runs what is not kept, and puts together what is known.
class Measured {
 public:
  Measured(const CompareArguments& arguments, std::vector<ComparedRun> runs)
      : arguments_(arguments), runs_(std::move(runs)), stop_(launch::install_stop_signals()) {
    comparison_.origin = emulated_hosts().empty() ? report::Origin::Measured : report::Origin::Emulated;
    if (arguments.target > 0)
      comparison_.target_accuracy = arguments.target > 1 ? arguments.target / 100 : arguments.target;
    for (const ComparedRun& run : runs_)
      if (systems_.try_emplace(run.plan.name, comparison_.systems.size()).second)
        comparison_.systems.push_back(
            {.name = run.plan.name, .axes = plan::axes_of(run.plan, job::catalogue())});
  }

  /// The exit code: 0, that of the first failure, or that of an interruption.
  int run() {
    int code = 0;
    for (std::size_t i = 0; i < runs_.size() && !stopped(); ++i) {
      const int ended = run(runs_[i], i);
      if (ended == exit_code(ErrorKind::Interrupted)) return ended;
      ++done_;
      if (code == 0) code = ended;
    }
    return done_ < runs_.size() ? exit_code(ErrorKind::Interrupted) : code;
  }

  /// Nobody's word and nothing in the plans: empty.
  std::string emulated_hosts() const {
    const std::string planned = plan::describe(runs_.front().plan.emulation);
    const bool both = !arguments_.emulated.empty() && !planned.empty();
    return arguments_.emulated + (both ? "; " : "") + planned;
  }

  report::Comparison comparison() {
    comparison_.subject = subject();
    comparison_.notes = notes();
    return comparison_;
  }

 private:
  /// Between runs, or in one that ended well nevertheless.
  bool stopped() const { return stop_ || stopped_in_run_; }

  int run(const ComparedRun& run, std::size_t index) {
    const std::string title = fmt::format("{} of {}: {}", index + 1, runs_.size(), title_of(run, arguments_));
    say(run.kept ? title + ": complete already, kept"
                 : fmt::format("{}: training, see {}/log.txt", title, run.folder));
    report::System& system = system_of(run);
    try {
      const int code = run.kept ? 0 : train(run, arguments_, stop_, [this] { stopped_in_run_ = true; });
      if (code == exit_code(ErrorKind::Interrupted)) return code;
      if (code != 0 && code != launch::kWithoutLostExit) {
        fail(system, run, reason(run, code));
        return code;
      }
      take(system, run);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::Interrupted) return exit_code(error.kind());
      fail(system, run, fmt::format("{}: {}", to_string(error.kind()), error.what()));
      return exit_code(error.kind());
    }
    return 0;
  }

  void fail(report::System& system, const ComparedRun& run, const std::string& why) const {
    system.failures.push_back(arguments_.seeds.size() > 1 ? fmt::format("seed {}: {}", run.plan.seed, why)
                                                          : why);
    say(fmt::format("{} failed: {}", title_of(run, arguments_), why));
  }

  void take(report::System& system, const ComparedRun& run) {
    RunRecord record = read_record(run);
    system.axes = plan::axes_of(record.plan, job::catalogue());
    compare_score(record.finished.score, record.finished.run);
    system.runs.push_back(record.finished.run);
    if (system.trace.empty()) system.trace = std::move(record.trace);
    if (const std::vector<int>& lost = record.finished.lost; !lost.empty())
      lost_.push_back(fmt::format(
          "{} lost rank{} {} on the way, and the others went on: its times are not those "
          "of {} workers.",
          title_of(run, arguments_), lost.size() == 1 ? "" : "s", fmt::join(lost, ", "), arguments_.workers));
    shares_memory_ |= record.finished.transport.find("tcp") == std::string::npos && arguments_.workers > 1;
    const std::string model = run.plan.model.name.empty() ? run.plan.model.torchscript : run.plan.model.name;
    models_.insert(fmt::format("{} ({} parameters)", model, record.finished.parameters));
    const report::Score score{record.finished.score, record.finished.run.score};
    say(fmt::format("{}: {} {}, {:.0f} samples/s", title_of(run, arguments_), report::title_of(score.kind),
                    report::text_of(score), record.finished.run.samples_per_second));
  }

  /// The first run's metric is the comparison's; a run that has another has no score in it. A target is one
  /// of accuracies.
  void compare_score(const report::ScoreKind& kind, report::SystemRun& run) {
    if (!scored_) comparison_.score = kind;
    if (!scored_ && kind.unit != report::ScoreKind::Unit::Share && comparison_.target_accuracy) {
      say(fmt::format("--target-accuracy is left out: runs are scored by {}", report::title_of(kind)));
      comparison_.target_accuracy.reset();
    }
    scored_ = true;
    if (kind != comparison_.score) run.score = std::numeric_limits<double>::quiet_NaN();
    if (kind != comparison_.score)
      for (report::CurvePoint& point : run.curve) point.score = run.score;
  }

  report::System& system_of(const ComparedRun& run) {
    return comparison_.systems[systems_.at(run.plan.name)];
  }

  std::string subject() const {
    const plan::Plan& plan = runs_.front().plan;
    const bool has_path = data::find_dataset(plan.data.dataset).has_path;
    const std::string text =
        fmt::format("{} trained on {}{} by {} worker{}", fmt::join(models_, ", "), plan.data.dataset,
                    has_path ? fmt::format(" ({})", plan.data.path) : "", arguments_.workers,
                    arguments_.workers == 1 ? "" : "s");
    std::set<std::uint64_t> seeds;
    for (const ComparedRun& run : runs_) seeds.insert(run.plan.seed);
    return text + fmt::format(", seed{} {}.", seeds.size() == 1 ? "" : "s", fmt::join(seeds, ", "));
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes = lost_;
    if (done_ < runs_.size())
      notes.push_back(
          fmt::format("Interrupted: {} of {} runs are missing.", runs_.size() - done_, runs_.size()));
    if (shares_memory_)
      notes.emplace_back(
          "Workers shared memory, where what one reads out of another's counts as sent by nobody: bytes "
          "compare "
          "with transport.kind tcp.");
    if (models_.size() > 1)
      notes.emplace_back("The systems train different models: their accuracies and bytes do not compare.");
    if (arguments_.seconds > 0)
      notes.push_back(
          fmt::format("Training ended after {:g} s, or at the recipe's length if that came first; the "
                      "learning rate's schedule is that of the whole length.",
                      arguments_.seconds));
    return notes;
  }

  const CompareArguments& arguments_;
  std::vector<ComparedRun> runs_;
  const std::atomic<bool>& stop_;
  bool stopped_in_run_ = false;
  report::Comparison comparison_;
  std::map<std::string, std::size_t> systems_;  // by name
  std::size_t done_ = 0;                        // runs, failed ones included
  bool shares_memory_ = false;
  std::vector<std::string> lost_;  // sentences, of runs that are complete without some of their workers
  bool scored_ = false;            // the comparison's metric is known
  std::set<std::string> models_;
};

void publish(const CompareArguments& arguments, report::Comparison comparison, const std::string& emulated) {
  comparison.facts = facts_of(arguments, emulated);
  write_file(arguments.out + "/compare.csv", report::to_csv(comparison));
  if (!arguments.simulate) write_file(arguments.out + "/curves.csv", report::curves_csv(comparison));
  write_file(arguments.out + "/report.html", report::to_page(comparison));
  for (const report::Picture& picture : report::to_pictures(comparison))
    write_file(fmt::format("{}/charts/{}.svg", arguments.out, picture.name), picture.svg);
  std::cout << report::to_text(comparison) << "report: " << arguments.out << "/report.html" << std::endl;
}

int run_simulated(const CompareArguments& arguments, Problems& problems) {
  int code = 0;
  report::Comparison comparison = compare_simulated(arguments, problems, &code);
  write_file(arguments.out + "/" + kMark, mark_of(arguments));
  publish(arguments, std::move(comparison), "");
  return code;
}

int run_measured(const CompareArguments& arguments, Problems& problems) {
  std::vector<ComparedRun> runs = plan_runs(arguments, problems);
  problems.require_none();
  write_file(arguments.out + "/" + kMark, mark_of(arguments));
  Measured measured(arguments, std::move(runs));
  const int code = measured.run();
  report::Comparison comparison = measured.comparison();
  publish(arguments, std::move(comparison), measured.emulated_hosts());
  if (code == exit_code(ErrorKind::Interrupted))
    say("interrupted: the same command goes on with what is left");
  return code;
}

int run(CompareArguments arguments) {
  Problems problems;
  if (!arguments.simulate && arguments.workers == 0) arguments.workers = kDefaultWorkers;
  check_options(arguments, problems);
  check_output(arguments, problems);
  return arguments.simulate ? run_simulated(arguments, problems) : run_measured(arguments, problems);
}

}  // namespace

int run_compare(const CompareArguments& arguments) {
  return run_alone([&] { return run(arguments); });
}

}  // namespace taxon::app
