#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>

#include "apps/taxon/commands/agent.h"
#include "apps/taxon/commands/calibrate.h"
#include "apps/taxon/commands/codecs.h"
#include "apps/taxon/commands/command.h"
#include "apps/taxon/commands/compare.h"
#include "apps/taxon/commands/doctor.h"
#include "apps/taxon/commands/faults.h"
#include "apps/taxon/commands/launch.h"
#include "apps/taxon/commands/parallel.h"
#include "apps/taxon/commands/profile.h"
#include "apps/taxon/commands/schedule.h"
#include "apps/taxon/commands/simulate.h"
#include "apps/taxon/commands/taxonomy.h"
#include "apps/taxon/commands/train.h"
#include "apps/taxon/output/completion.h"
#include "apps/taxon/output/usage.h"
#include "apps/taxon/output/version.h"
#include "base/error.h"
#include "base/failure.h"
#include "job/recipes.h"
#include "launch/heap.h"
#include "launch/openblas.h"

namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which are not there yet
/// Before the initialisers of libraries, of which OpenBLAS's asks for its 128 MiB again and again where a
/// limit leaves less, and others throw where nobody catches: a program that may not map what they need ends
/// here, with words.
void require_room_for_libraries(int, char**, char**) {
  constexpr std::size_t kNeeded = std::size_t{256} << 20;
  if (taxon::may_map(kNeeded)) return;
  constexpr std::string_view kLine =
      "taxon: resources: this process may not map the 256 MiB that its libraries begin with: raise the limit "
      "of memory "
      "(ulimit -v)\n";
  if (write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) {
    // Nobody reads it; the exit code says the same.
  }
  _exit(taxon::exit_code(taxon::ErrorKind::Resources));
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const kRequireRoom)(int, char**,
                                                                         char**) = require_room_for_libraries;
#endif

constexpr const char* kFooter = "Exit codes and what to do about each: docs/errors.md.";

/// CLI::PositiveNumber refuses with a bound of 300 digits.
template <class Number>
CLI::Validator above_zero(const char* what) {
  return {[what](std::string& word) {
            Number value = 0;
            const bool is_one = CLI::detail::lexical_cast(word, value) && value > 0;
            return is_one ? std::string() : fmt::format("\"{}\" is no {}", word, what);
          },
          "POSITIVE"};
}
CLI::Validator count() { return above_zero<std::int64_t>("whole number of at least 1"); }
CLI::Validator seconds() { return above_zero<double>("number above 0"); }

void add_overrides(CLI::App* command, std::vector<std::string>& overrides) {
  command->add_option("--set", overrides, "Override a key of the plan: --set learning_rate.base=0.1")
      ->type_name("KEY.PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);  // the word after its value may be a recipe
}

CLI::Option* add_json(CLI::App* command, bool& json) {
  return command->add_flag("--json", json, "Print the result for programs (docs/outputs.md names the keys)");
}

/// A recipe by its file or its name. Every command that takes one takes both.
CLI::Option* add_recipe(CLI::App* command, const char* name, auto& value, const char* description) {
  return command->add_option(name, value, description)
      ->type_name("RECIPE")
      ->transform(CLI::Validator(
          [](std::string& word) {
            word = taxon::job::find_recipe(word, taxon::job::recipe_folder());
            return std::string();
          },
          "", "a recipe"));
}

CLI::App* add_train(CLI::App& program, taxon::app::TrainArguments& arguments) {
  CLI::App* train = program.add_subcommand(
      "train", "Train a recipe, alone, with local workers, or as a rank of a launcher's job");
  add_recipe(
      train, "recipe", arguments.recipe,
      "The recipe: a plan in YAML (docs/plan.md), or the name of one that comes with Taxon (taxon recipes)")
      ->required();
  train->add_option("--workers", arguments.workers, "Start so many workers on this host")->check(count());
  add_overrides(train, arguments.overrides);
  train->add_option("--out", arguments.out, "Folder of the outputs (default: runs/NAME)");
  // A flag: an option would take the recipe after it for its value.
  train
      ->add_flag(fmt::format("--resume{{{}}}", taxon::app::TrainArguments::kNewest), arguments.resume,
                 "Continue from the newest whole checkpoint in the output folder, or with --resume=STEP from "
                 "that step's")
      ->type_name("[=STEP]");
  train->add_flag("--overwrite", arguments.overwrite, "Replace the run that is in the output folder")
      ->excludes("--resume");
  auto* record = train
                     ->add_option("--record-order", arguments.record_order,
                                  "Write to this file in which order ranks that don't keep step did what")
                     ->type_name("FILE");
  auto* follow = train
                     ->add_option("--follow-order", arguments.follow_order,
                                  "Do it in the order of this file, and come to that run's weights")
                     ->type_name("FILE");
  for (CLI::Option* option : {record, follow}) option->excludes("--resume");
  train->add_flag("--dry-run", arguments.dry_run,
                  "Print what the plan changes, its memory and its bytes per step, and stop");
  train->add_flag("--all", arguments.all, "With --dry-run: print every key of the resolved plan")
      ->needs("--dry-run");
  train->add_flag("-v,--verbose", arguments.verbose, "Say of every bucket what it holds and how it travels");
  add_json(train, arguments.json)->excludes("--dry-run");
  train->footer(kFooter);
  return train;
}

CLI::App* add_launch(CLI::App& program, taxon::app::LaunchArguments& arguments) {
  CLI::App* launch = program.add_subcommand(
      "launch", "Train on several hosts over ssh: taxon launch --hosts a,b RECIPE [options of train]");
  launch->add_option("--hosts", arguments.hosts, "The hosts, as ssh knows them; the first has rank 0")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  launch->add_option("--user", arguments.user, "The user there (default: as ssh says)");
  launch->add_option("--slots", arguments.slots, "Ranks of each host (default: 1)")->check(count());
  launch->add_option("--ssh", arguments.ssh, "The ssh command with its options (default: ssh)")
      ->type_name("COMMAND");
  launch->prefix_command();
  launch->footer(kFooter);
  return launch;
}

/// The words of a launch that are not its own are those of `taxon train`.
void parse_train_words(taxon::app::LaunchArguments& arguments, const std::vector<std::string>& words) {
  CLI::App train;
  add_train(train, arguments.train);
  arguments.words = words;
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  reversed.emplace_back("train");
  train.parse(reversed);
  const CLI::App& command = *train.get_subcommand("train");
  const auto is_value = [&](std::size_t word) {
    const CLI::Option* before = word == 0 ? nullptr : command.get_option_no_throw(words[word - 1]);
    return before != nullptr && before->get_items_expected_max() > 0;
  };
  // As it was typed, or the name of a recipe that was looked up.
  for (std::size_t i = 0; i < words.size(); ++i)
    if ((words[i] == arguments.train.recipe ||
         words[i] == std::filesystem::path(arguments.train.recipe).stem()) &&
        !is_value(i))
      arguments.recipe_word = i;
}

CLI::App* add_profile(CLI::App& program, taxon::app::ProfileArguments& arguments) {
  CLI::App* profile = program.add_subcommand(
      "profile", "Measure what the recipe's model costs on this machine, segment by segment");
  add_recipe(profile, "recipe", arguments.recipe, "The recipe: a file or a name")->required();
  profile->add_option("--out", arguments.out, "Write the profile to this file, for `taxon simulate`");
  profile->add_option("--workers", arguments.workers, "Workers that share batch.global (default: 1)")
      ->check(count());
  profile->add_option("--threads", arguments.threads, "Compute threads (default: as training would use)")
      ->check(count());
  profile->add_option("--steps", arguments.steps, "Steps to take the median of (default: 20)")
      ->check(count());
  add_overrides(profile, arguments.overrides);
  profile->footer(kFooter);
  return profile;
}

/// Options that look for faults instead; the flag that asks for it.
CLI::Option* add_fault_search(CLI::App* simulate, taxon::app::FaultArguments& arguments) {
  const std::string what = "Try schedules of faults, each made from a seed, and say what must not be";
  CLI::Option* faults = simulate->add_flag("--faults", what);
  auto* seeds = simulate->add_option("--seeds", arguments.seeds, "The seeds to try")
                    ->type_name("FIRST..LAST")
                    ->needs(faults);
  auto* table = simulate->add_option("--table", arguments.table,
                                     "Write how the runs ended, by what they were made of (Markdown)");
  table->needs(faults);
  simulate->add_option("--replay", arguments.replay, "Try this seed alone and say all that is known of it")
      ->excludes(seeds)
      ->excludes(table)
      ->needs(faults);
  for (const char* other :
       {"--cluster", "--workers", "--profile", "--fidelity", "--steps", "--trace", "--json"})
    faults->excludes(simulate->get_option(other));
  return faults;
}

CLI::App* add_simulate(CLI::App& program, taxon::app::SimulateArguments& arguments) {
  CLI::App* simulate = program.add_subcommand(
      "simulate", "Train a recipe on a cluster that is only described, on virtual time");
  add_recipe(simulate, "recipe", arguments.recipe, "The recipe: a file or a name")->required();
  simulate->add_option("--cluster", arguments.cluster, "The cluster file (see clusters/)");
  simulate->add_option("--workers", arguments.workers, "Ranks (default: as many as the cluster holds)")
      ->check(count());
  simulate->add_option("--profile", arguments.profile,
                       "What the model costs: from `taxon profile`, or one of profiles/");
  simulate->add_option(
      "--fidelity", arguments.fidelity,
      "timing: sizes and costs alone; coarse: and a collective is one event; exact: real models on "
      "real data (default: timing)");
  simulate->add_option("--steps", arguments.steps, "Steps to simulate (default: 10)")->check(count());
  simulate->add_option("--trace", arguments.trace, "Write a Chrome trace, as a real run's trace.json");
  simulate->add_option("--json", arguments.json, "Write the figures for programs");
  add_overrides(simulate, arguments.overrides);
  simulate->footer(kFooter);
  return simulate;
}

CLI::App* add_calibrate(CLI::App& program, taxon::app::CalibrateArguments& arguments) {
  CLI::App* calibrate = program.add_subcommand(
      "calibrate",
      "Measure this machine, or a launcher's job, and write the cluster file that a simulation of it needs");
  calibrate->add_option("--out", arguments.out, "The cluster file (default: cluster.yaml)");
  calibrate->add_option("--workers", arguments.workers, "Start so many workers on this host")->check(count());
  calibrate
      ->add_option("--threads", arguments.threads,
                   "Compute threads per worker (default: the host's cores divided by its workers)")
      ->check(count());
  calibrate->add_option("--transport", arguments.transport, "As the plan's transport.kind (default: auto)");
  calibrate->add_flag("--quick", arguments.quick, "Measure a quarter as long");
  add_json(calibrate, arguments.json);
  calibrate->footer(kFooter);
  return calibrate;
}

CLI::App* add_codecs(CLI::App& program, taxon::app::CodecsArguments& arguments) {
  CLI::App* codecs = program.add_subcommand(
      "codecs", "Measure every codec on gradients of a recipe, and say how long steps would take on a link");
  add_recipe(codecs, "recipe", arguments.recipe, "The recipe: a file or a name")->required();
  codecs->add_option("--link", arguments.link, "What a worker's link carries (default: 1 Gbit/s)")
      ->type_name("RATE");
  codecs->add_option("--workers", arguments.workers, "Workers that share batch.global (default: 4)")
      ->check(count());
  codecs->add_option("--steps", arguments.steps, "Steps before the gradient is recorded (default: 5)")
      ->check(count());
  add_overrides(codecs, arguments.overrides);
  add_json(codecs, arguments.json);
  codecs->footer(kFooter);
  return codecs;
}

CLI::App* add_parallel(CLI::App& program, taxon::app::ParallelArguments& arguments) {
  CLI::App* parallel = program.add_subcommand(
      "parallel", "Say how each layer of a network is best divided over workers: by data, model or both");
  parallel->add_option("network", arguments.network, "The network (default: list those that there are)")
      ->type_name("NETWORK");
  parallel
      ->add_option("--workers", arguments.workers, "Workers (default: as many as the cluster holds, or one)")
      ->check(count());
  parallel->add_option("--batch", arguments.batch, "Samples of a step (default: as published)")
      ->check(count());
  parallel->add_option("--overlap", arguments.overlap,
                       "How much of the sending hides behind receiving, from 0 to 1 (default: 0)");
  parallel->add_option("--cluster", arguments.cluster, "The cluster file (see clusters/), for times");
  parallel->add_option("--set", arguments.options, "A key of the network's own: --set layers=24")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  add_json(parallel, arguments.json);
  parallel->footer(kFooter);
  return parallel;
}

CLI::App* add_schedule(CLI::App& program, taxon::app::ScheduleArguments& arguments) {
  CLI::App* schedule =
      program.add_subcommand("schedule", "Draw a schedule of a pipeline, with its bubble and its memory");
  schedule->add_option("schedule", arguments.row, "The schedule (default: list those that there are)")
      ->type_name("SCHEDULE");
  schedule->add_option("--stages", arguments.stages, "Stages of the model (default: 4)");
  schedule->add_option("--micro-batches", arguments.micros,
                       "Micro-batches from one flush to the next (default: 8)");
  schedule->add_option("--set", arguments.options, "A key of the schedule's own: --set chunks=2")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  schedule->add_option(
      "--network", arguments.network,
      "Cut this network into the stages and say how long a step takes (taxon parallel lists them)");
  schedule->add_option("--network-set", arguments.network_options, "A key of the network's own")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  schedule->add_option("--batch", arguments.batch, "Samples of all micro-batches (default: one each)")
      ->check(count());
  schedule->add_option(
      "--cluster", arguments.cluster,
      "What a stage's worker and its link can do (default: 1 TFLOP/s, and transfers take no time)");
  add_json(schedule, arguments.json);
  schedule->footer(kFooter);
  return schedule;
}

CLI::App* add_taxonomy(CLI::App& program, taxon::app::TaxonomyArguments& arguments) {
  CLI::App* taxonomy =
      program.add_subcommand("taxonomy", "Print the axes, every point on them, and where recipes stand");
  add_recipe(taxonomy, "recipes", arguments.recipes, "Recipes, such as recipes/systems/*.yaml");
  CLI::Option* json = add_json(taxonomy, arguments.json);
  taxonomy
      ->add_option("--row", arguments.row,
                   "What the row of this name says of itself, such as top_k: its keys, and what they allow")
      ->excludes(json);
  taxonomy->footer(kFooter);
  return taxonomy;
}

CLI::App* add_compare(CLI::App& program, taxon::app::CompareArguments& arguments) {
  CLI::App* compare = program.add_subcommand(
      "compare", "Train recipes one after the other and set them side by side in a table and a report");
  add_recipe(compare, "recipes", arguments.recipes, "The recipes: files or names")->required();
  compare->add_option("--out", arguments.out, "Folder of the comparison: one run a recipe, and report.html");
  compare
      ->add_option("--workers", arguments.workers,
                   "Workers of every run, on this host (default: 2; with --simulate as many as the "
                   "cluster holds)")
      ->check(count());
  add_overrides(compare, arguments.overrides);
  compare->add_option("--seconds", arguments.seconds, "End every run after so many seconds of training")
      ->check(seconds());
  compare->add_option("--samples", arguments.samples, "Train every run for so many samples")->check(count());
  compare->add_option("--target-accuracy", arguments.target,
                      "Say what it takes to get there: a share (0.88) or per cent (88)");
  compare->add_option("--seeds", arguments.seeds, "Run every recipe with each of these seeds: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);
  compare->add_option("--emulated", arguments.emulated,
                      "Call the figures emulated, and say in the report how the hosts are: \"four of ...\"");
  compare->add_flag("--simulate", arguments.simulate,
                    "Compare a few steps on a cluster that is only described");
  compare->add_option("--cluster", arguments.cluster, "With --simulate: the cluster file (see clusters/)");
  compare->add_option("--profile", arguments.profile, "With --simulate: what the model costs");
  compare->add_option("--steps", arguments.steps, "With --simulate: steps of each run (default: 10)")
      ->check(count());
  compare->footer(kFooter);
  return compare;
}

CLI::App* add_completion(CLI::App& program, std::string& shell) {
  CLI::App* completion = program.add_subcommand(
      "completion", "Print what a shell completes this program's words by, or its manual page");
  std::vector<std::string> names;
  for (const taxon::app::TextRow& row : taxon::app::text_table()) names.emplace_back(row.name);
  completion->add_option("shell", shell, "The shell, or man for the manual page")
      ->check(CLI::IsMember(names))
      ->required();
  return completion;
}

int print_text(const CLI::App& program, const std::string& name) {
  for (const taxon::app::TextRow& row : taxon::app::text_table())
    if (row.name == name) std::cout << row.make(program);
  return 0;
}

int print_recipes() {
  for (const auto& recipe : taxon::job::known_recipes(taxon::job::recipe_folder()))
    std::cout << fmt::format("{:<24} {}\n", recipe.name, recipe.path);
  return 0;
}

/// What was wrong with the words, in a line of the house's form.
int say_wrong(const CLI::App& program, const std::vector<std::string>& words, const CLI::ParseError& error) {
  taxon::app::say(fmt::format("{}: {}", to_string(taxon::ErrorKind::Usage),
                              taxon::app::sentence_of(program, words, error)));
  return exit_code(taxon::ErrorKind::Usage);
}

/// What was printed has to arrive, or a command has not done what it was asked for.
int ended(int code) {
  std::cout.flush();
  if (code != 0 || std::cout) return code;
  taxon::app::say(
      fmt::format("{}: standard output cannot be written: its disk is full, or its reader is gone",
                  to_string(taxon::ErrorKind::Output)));
  return exit_code(taxon::ErrorKind::Output);
}

/// Everything but what a process does once.
int run_program(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  CLI::App program{"Taxon: distributed deep-learning training, published systems as recipes", "taxon"};
  program.set_version_flag("--version", [&words] {
    // Whichever comes first of the two: CLI11 answers --version as soon as it sees it.
    const bool asked = std::find(words.begin(), words.end(), "--json") != words.end();
    return asked ? taxon::app::version_json() : taxon::app::version_text();
  });
  bool json = false;
  program.add_flag("--json", json, "With --version: print it for programs");
  program.require_subcommand(1);
  program.footer(kFooter);

  // The one table of commands: parsing, --help, completion and the manual page are made from it.
  taxon::app::TrainArguments train;
  taxon::app::CompareArguments compare;
  taxon::app::SimulateArguments simulate;
  taxon::app::FaultArguments faults;
  taxon::app::ProfileArguments profile;
  taxon::app::CalibrateArguments calibrate;
  taxon::app::CodecsArguments codecs;
  taxon::app::ParallelArguments parallel;
  taxon::app::ScheduleArguments schedule;
  taxon::app::TaxonomyArguments taxonomy;
  taxon::app::DoctorArguments doctor;
  taxon::app::LaunchArguments launch;
  std::string shell;
  train.command_line = compare.command_line = calibrate.command_line = words;
  train.main = calibrate.main = run_program;
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands;
  commands.emplace_back(add_train(program, train), [&] { return run_train(train); });
  CLI::App* launching = add_launch(program, launch);
  commands.emplace_back(launching, [&] { return run_launch(launch); });
  // What a launch runs on each host; no command for people.
  CLI::App* agent = program.add_subcommand("agent", "A host's part of taxon launch")->group("");
  commands.emplace_back(agent, taxon::app::run_agent);
  commands.emplace_back(add_compare(program, compare), [&] { return run_compare(compare); });
  CLI::App* simulation = add_simulate(program, simulate);
  CLI::Option* searches_faults = add_fault_search(simulation, faults);
  commands.emplace_back(simulation, [&] {
    if (!*searches_faults) return run_simulate(simulate);
    faults.recipe = simulate.recipe;
    faults.overrides = simulate.overrides;
    return run_faults(faults);
  });
  commands.emplace_back(add_profile(program, profile), [&] { return run_profile(profile); });
  commands.emplace_back(add_calibrate(program, calibrate), [&] { return run_calibrate(calibrate); });
  commands.emplace_back(add_codecs(program, codecs), [&] { return run_codecs(codecs); });
  commands.emplace_back(add_parallel(program, parallel), [&] { return run_parallel(parallel); });
  commands.emplace_back(add_schedule(program, schedule), [&] { return run_schedule(schedule); });
  commands.emplace_back(add_taxonomy(program, taxonomy), [&] { return run_taxonomy(taxonomy); });
  commands.emplace_back(program.add_subcommand("recipes", "List the recipes that come with Taxon, by name"),
                        print_recipes);
  CLI::App* examination =
      program.add_subcommand("doctor", "Say what this machine offers and what to improve");
  add_json(examination, doctor.json);
  commands.emplace_back(examination, [&] { return run_doctor(doctor, std::cout); });
  commands.emplace_back(add_completion(program, shell), [&] { return print_text(program, shell); });
  try {
    program.parse(argc, argv);
    if (launching->parsed()) parse_train_words(launch, launching->remaining());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return ended(program.exit(error, std::cout, std::cerr));
    return say_wrong(program, words, error);
  } catch (const taxon::Error& error) {
    taxon::app::say(fmt::format("{}: {}", to_string(error.kind()), error.what()));
    return exit_code(error.kind());
  }
  for (const auto& [command, run] : commands)
    if (command->parsed()) return ended(run());
  return 0;
}

}  // namespace

/// Before libtorch's initialisers, whose 50 MB every operator looks things up in.
__attribute__((section(".preinit_array"),
               used)) void (*const heap_is_tuned_first)() = taxon::launch::tune_heap;

int main(int argc, char** argv) {
  taxon::launch::choose_openblas_kernels();
  return run_program(argc, argv);
}
