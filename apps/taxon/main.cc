#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/taxon/calibrate_command.h"
#include "apps/taxon/codecs_command.h"
#include "apps/taxon/compare_command.h"
#include "apps/taxon/doctor.h"
#include "apps/taxon/fault_command.h"
#include "apps/taxon/profile_command.h"
#include "apps/taxon/simulate_command.h"
#include "apps/taxon/taxonomy_command.h"
#include "apps/taxon/train_command.h"
#include "apps/taxon/version.h"
#include "base/error.h"

namespace {

constexpr const char* kFooter = "Exit codes and what to do about each: docs/errors.md.";

void add_overrides(CLI::App* command, std::vector<std::string>& overrides) {
  command->add_option("--set", overrides, "Override a key of the plan: --set learning_rate.base=0.1")
      ->type_name("KEY.PATH=VALUE")
      ->take_all();
}

void add_train(CLI::App& program, taxon::app::TrainArguments& arguments) {
  CLI::App* train = program.add_subcommand(
      "train", "Train a recipe, alone, with local workers, or as a rank of a launcher's job");
  train->add_option("recipe", arguments.recipe, "The recipe: a plan in YAML (see recipes/ and docs/plan.md)")
      ->required();
  train->add_option("--workers", arguments.workers, "Start so many workers on this host")
      ->check(CLI::PositiveNumber);
  add_overrides(train, arguments.overrides);
  train->add_option("--out", arguments.out, "Folder of the outputs (default: runs/NAME)");
  train->add_flag("--resume", arguments.resume, "Continue from the newest checkpoint in the output folder");
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
                  "Print the resolved plan, its memory and its bytes per step, and stop");
  train->footer(kFooter);
}

CLI::App* add_profile(CLI::App& program, taxon::app::ProfileArguments& arguments) {
  CLI::App* profile = program.add_subcommand(
      "profile", "Measure what the recipe's model costs on this machine, segment by segment");
  profile->add_option("recipe", arguments.recipe, "The recipe: a plan in YAML")->required();
  profile->add_option("--out", arguments.out, "Write the profile to this file, for `taxon simulate`");
  profile->add_option("--workers", arguments.workers, "Workers that share batch.global (default: 1)")
      ->check(CLI::PositiveNumber);
  profile->add_option("--threads", arguments.threads, "Compute threads (default: as training would use)")
      ->check(CLI::PositiveNumber);
  profile->add_option("--steps", arguments.steps, "Steps to take the median of (default: 20)")
      ->check(CLI::PositiveNumber);
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
  simulate->add_option("--replay", arguments.replay, "Try this seed alone and say all that is known of it")
      ->excludes(seeds)
      ->needs(faults);
  for (const char* other :
       {"--cluster", "--workers", "--profile", "--fidelity", "--steps", "--trace", "--json"})
    faults->excludes(simulate->get_option(other));
  return faults;
}

CLI::App* add_simulate(CLI::App& program, taxon::app::SimulateArguments& arguments) {
  CLI::App* simulate = program.add_subcommand(
      "simulate", "Train a recipe on a cluster that is only described, on virtual time");
  simulate->add_option("recipe", arguments.recipe, "The recipe: a plan in YAML")->required();
  simulate->add_option("--cluster", arguments.cluster, "The cluster file (see clusters/)");
  simulate->add_option("--workers", arguments.workers, "Ranks (default: as many as the cluster holds)")
      ->check(CLI::PositiveNumber);
  simulate->add_option("--profile", arguments.profile,
                       "What the model costs: from `taxon profile`, or one of profiles/");
  simulate->add_option(
      "--fidelity", arguments.fidelity,
      "timing: sizes and costs alone; coarse: and a collective is one event; exact: real models on "
      "real data (default: timing)");
  simulate->add_option("--steps", arguments.steps, "Steps to simulate (default: 10)")
      ->check(CLI::PositiveNumber);
  simulate->add_option("--trace", arguments.trace, "Write a Chrome trace, as a real run's trace.json");
  simulate->add_option("--json", arguments.json, "Write the figures for programs");
  add_overrides(simulate, arguments.overrides);
  simulate->footer(kFooter);
  return simulate;
}

void add_calibrate(CLI::App& program, taxon::app::CalibrateArguments& arguments) {
  CLI::App* calibrate = program.add_subcommand(
      "calibrate",
      "Measure this machine, or a launcher's job, and write the cluster file that a simulation of it needs");
  calibrate->add_option("--out", arguments.out, "The cluster file (default: cluster.yaml)");
  calibrate->add_option("--workers", arguments.workers, "Start so many workers on this host")
      ->check(CLI::PositiveNumber);
  calibrate
      ->add_option("--threads", arguments.threads,
                   "Compute threads per worker (default: the host's cores divided by its workers)")
      ->check(CLI::PositiveNumber);
  calibrate->add_option("--transport", arguments.transport, "As the plan's transport.kind (default: auto)");
  calibrate->add_flag("--quick", arguments.quick, "Measure a quarter as long");
  calibrate->footer(kFooter);
}

CLI::App* add_codecs(CLI::App& program, taxon::app::CodecsArguments& arguments) {
  CLI::App* codecs = program.add_subcommand(
      "codecs", "Measure every codec on gradients of a recipe, and say how long steps would take on a link");
  codecs->add_option("recipe", arguments.recipe, "The recipe: a plan in YAML")->required();
  codecs->add_option("--link", arguments.link, "What a worker's link carries (default: 1 Gbit/s)")
      ->type_name("RATE");
  codecs->add_option("--workers", arguments.workers, "Workers that share batch.global (default: 4)")
      ->check(CLI::PositiveNumber);
  codecs->add_option("--steps", arguments.steps, "Steps before the gradient is recorded (default: 5)")
      ->check(CLI::PositiveNumber);
  add_overrides(codecs, arguments.overrides);
  codecs->footer(kFooter);
  return codecs;
}

CLI::App* add_taxonomy(CLI::App& program, taxon::app::TaxonomyArguments& arguments) {
  CLI::App* taxonomy =
      program.add_subcommand("taxonomy", "Print the axes, every point on them, and where recipes stand");
  taxonomy->add_option("recipes", arguments.recipes, "Recipes, such as recipes/systems/*.yaml");
  taxonomy->footer(kFooter);
  return taxonomy;
}

CLI::App* add_compare(CLI::App& program, taxon::app::CompareArguments& arguments) {
  CLI::App* compare = program.add_subcommand(
      "compare", "Train recipes one after the other and set them side by side in a table and a report");
  compare->add_option("recipes", arguments.recipes, "The recipes")->required();
  compare->add_option("--out", arguments.out, "Folder of the comparison: one run a recipe, and report.html");
  compare->add_option("--workers", arguments.workers, "Workers of every run, on this host (default: 2)")
      ->check(CLI::PositiveNumber);
  add_overrides(compare, arguments.overrides);
  compare->add_option("--seconds", arguments.seconds, "End every run after so many seconds of training")
      ->check(CLI::PositiveNumber);
  compare->add_option("--samples", arguments.samples, "Train every run for so many samples")
      ->check(CLI::PositiveNumber);
  compare->add_option("--target-accuracy", arguments.target,
                      "Say what it takes to get there: a share (0.88) or per cent (88)");
  compare->add_option("--seeds", arguments.seeds, "Run every recipe with each of these seeds: 1,2,3")
      ->delimiter(',');
  compare->add_option("--emulated", arguments.emulated,
                      "Call the figures emulated, and say in the report how the hosts are: \"four of ...\"");
  compare->add_flag("--simulate", arguments.simulate,
                    "Compare a few steps on a cluster that is only described");
  compare->add_option("--cluster", arguments.cluster, "With --simulate: the cluster file (see clusters/)");
  compare->add_option("--profile", arguments.profile, "With --simulate: what the model costs");
  compare->add_option("--steps", arguments.steps, "With --simulate: steps of each run (default: 10)")
      ->check(CLI::PositiveNumber);
  compare->footer(kFooter);
  return compare;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program{"Taxon: distributed deep-learning training, every published system a recipe"};
  program.set_version_flag("--version", [] { return taxon::app::version_text(); });
  program.require_subcommand(1);
  program.footer(kFooter);
  taxon::app::TrainArguments train;
  train.command_line.assign(argv, argv + argc);
  add_train(program, train);
  taxon::app::ProfileArguments profile_arguments;
  CLI::App* profile = add_profile(program, profile_arguments);
  taxon::app::SimulateArguments simulate_arguments;
  CLI::App* simulate = add_simulate(program, simulate_arguments);
  taxon::app::FaultArguments faults;
  CLI::Option* searches_faults = add_fault_search(simulate, faults);
  taxon::app::CalibrateArguments calibrate;
  calibrate.command_line = train.command_line;
  add_calibrate(program, calibrate);
  taxon::app::CompareArguments compare_arguments;
  compare_arguments.command_line = train.command_line;
  CLI::App* compare = add_compare(program, compare_arguments);
  taxon::app::TaxonomyArguments taxonomy_arguments;
  CLI::App* taxonomy = add_taxonomy(program, taxonomy_arguments);
  taxon::app::CodecsArguments codecs_arguments;
  CLI::App* codecs = add_codecs(program, codecs_arguments);
  CLI::App* doctor = program.add_subcommand("doctor", "Say what this machine offers and what to improve");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = program.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : taxon::exit_code(taxon::ErrorKind::Usage);
  }
  if (taxonomy->parsed()) return taxon::app::run_taxonomy(taxonomy_arguments);
  if (codecs->parsed()) return taxon::app::run_codecs(codecs_arguments);
  if (doctor->parsed()) return taxon::app::run_doctor(std::cout);
  if (profile->parsed()) return taxon::app::run_profile(profile_arguments);
  if (simulate->parsed() && *searches_faults) {
    faults.recipe = simulate_arguments.recipe;
    faults.overrides = simulate_arguments.overrides;
    return taxon::app::run_faults(faults);
  }
  if (simulate->parsed()) return taxon::app::run_simulate(simulate_arguments);
  if (compare->parsed()) return taxon::app::run_compare(compare_arguments);
  if (program.got_subcommand("calibrate")) return taxon::app::run_calibrate(calibrate);
  return taxon::app::run_train(train);
}
