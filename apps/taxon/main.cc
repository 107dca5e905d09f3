#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/taxon/doctor.h"
#include "apps/taxon/fault_command.h"
#include "apps/taxon/train_command.h"
#include "apps/taxon/version.h"
#include "base/error.h"

namespace {

constexpr const char* kFooter = "Exit codes and what to do about each: docs/errors.md.";

void add_train(CLI::App& program, taxon::app::TrainArguments& arguments) {
  CLI::App* train = program.add_subcommand(
      "train", "Train a recipe, alone, with local workers, or as a rank of a launcher's job");
  train->add_option("recipe", arguments.recipe, "The recipe: a plan in YAML (see recipes/ and docs/plan.md)")
      ->required();
  train->add_option("--workers", arguments.workers, "Start so many workers on this host")
      ->check(CLI::PositiveNumber);
  train->add_option("--set", arguments.overrides, "Override a key of the plan: --set learning_rate.base=0.1")
      ->type_name("KEY.PATH=VALUE")
      ->take_all();
  train->add_option("--out", arguments.out, "Folder of the outputs (default: runs/NAME)");
  train->add_flag("--resume", arguments.resume, "Continue from the newest checkpoint in the output folder");
  train->add_flag("--overwrite", arguments.overwrite, "Replace the run that is in the output folder")
      ->excludes("--resume");
  train->add_flag("--dry-run", arguments.dry_run,
                  "Print the resolved plan, its memory and its bytes per step, and stop");
  train->footer(kFooter);
}

void add_simulate(CLI::App& program, taxon::app::FaultArguments& arguments) {
  CLI::App* simulate = program.add_subcommand("simulate", "Train in the virtual world");
  simulate->add_option("recipe", arguments.recipe, "The recipe, such as recipes/blobs-perceptron.yaml")
      ->required();
  simulate->add_option("--set", arguments.overrides, "Override a key of the plan")
      ->type_name("KEY.PATH=VALUE")
      ->take_all();
  simulate->add_flag("--faults", "Try schedules of faults, each made from a seed, and say what must not be")
      ->required();
  simulate->add_option("--seeds", arguments.seeds, "The seeds to try")->type_name("FIRST..LAST");
  simulate->add_option("--replay", arguments.replay, "Try this seed alone and say all that is known of it")
      ->excludes("--seeds");
  simulate->footer(kFooter);
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
  taxon::app::FaultArguments faults;
  add_simulate(program, faults);
  CLI::App* doctor = program.add_subcommand("doctor", "Say what this machine offers and what to improve");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = program.exit(error, std::cout, std::cerr);
    return code == 0 ? 0 : taxon::exit_code(taxon::ErrorKind::Usage);
  }
  if (doctor->parsed()) return taxon::app::run_doctor(std::cout);
  if (program.got_subcommand("simulate")) return taxon::app::run_faults(faults);
  return taxon::app::run_train(train);
}
