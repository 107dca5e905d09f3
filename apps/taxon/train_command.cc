#include "apps/taxon/train_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "apps/taxon/command.h"
#include "apps/taxon/host.h"
#include "apps/taxon/identity.h"
#include "apps/taxon/local_launcher.h"
#include "apps/taxon/outputs.h"
#include "apps/taxon/preflight.h"
#include "apps/taxon/process.h"
#include "apps/taxon/stop_signals.h"
#include "apps/taxon/version.h"
#include "exchange/levels.h"
#include "train/train.h"

namespace taxon::app {
namespace {

train::Order read_order(const data::Storage& storage, const std::string& file) {
  const std::vector<std::byte> bytes = storage.read(file);
  return train::parse_order({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file);
}

/// One rank's run, from its ingredients to its outputs.
class RankRun {
 public:
  RankRun(const TrainArguments& arguments, const plan::Plan& plan, const Identity& identity,
          const std::atomic<bool>& stop)
      : arguments_(arguments), plan_(plan), identity_(identity), stop_(stop) {}

  int run(const std::string& out, control::Secret secret) {
    auto started = std::chrono::steady_clock::now();
    Ingredients ingredients = open_ingredients(plan_, storage_, identity_.rank, identity_.local_world_size);
    ProcessOptions options;
    options.identity = identity_;
    options.secret = std::move(secret);
    options.version = version_number();
    options.stop = &stop_;
    options.say = say;
    if (arguments_.follow_order.empty()) options.spared = exchange::spared_ranks(plan_, identity_.world_size);
    Process process(plan_, std::move(options));
    bool root = identity_.rank == 0;
    Outputs outputs(storage_,
                    {.folder = out,
                     .role = root ? Outputs::Role::Writer : Outputs::Role::Listener,
                     .terminal = isatty(STDERR_FILENO) ? Outputs::Terminal::Live : Outputs::Terminal::Plain,
                     .colour = std::getenv("NO_COLOR") == nullptr && isatty(STDERR_FILENO)});
    train::TrainOptions train;
    train.plan = plan_;
    train.out = out;
    train.start = arguments_.resume ? train::TrainOptions::Start::Resume : train::TrainOptions::Start::Fresh;
    train.version = version_number();
    train.clock_offset = process.clock_offset();
    train.stop = &stop_;
    train.losses = &process.losses();
    train.record_order = !arguments_.record_order.empty();
    std::optional<train::Order> order;
    if (!arguments_.follow_order.empty()) order = read_order(storage_, arguments_.follow_order);
    if (order) train.follow = &*order;
    train::World world{process.runtime(), *ingredients.model, ingredients.datasets, storage_, outputs};
    train::Outcome outcome;
    process.run(capture(train::train(world, std::move(train)), &outcome));
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    if (outcome.order) write_file(arguments_.record_order, train::to_text(*outcome.order));
    if (root) outputs.finish(outcome, seconds);
    if (outcome.end == train::Outcome::End::Interrupted) return exit_code(ErrorKind::Interrupted);
    return outcome.lost.empty() ? 0 : kWithoutLostExit;
  }

 private:
  static task::Task<void> capture(task::Task<train::Outcome> training, train::Outcome* outcome) {
    *outcome = co_await training;
  }

  const TrainArguments& arguments_;
  const plan::Plan& plan_;
  const Identity& identity_;
  const std::atomic<bool>& stop_;
  data::FileStorage storage_;
};

Existing existing(const TrainArguments& arguments) {
  if (arguments.resume) return Existing::Resume;
  return arguments.overwrite ? Existing::Overwrite : Existing::Refuse;
}

std::vector<plan::Problem> problems_of_order(const TrainArguments& arguments, const plan::Plan& plan,
                                             int world_size) {
  std::vector<plan::Problem> problems;
  if (!arguments.record_order.empty()) problems = train::problems_of_recording(plan);
  if (arguments.follow_order.empty()) return problems;
  const train::Order order = read_order(data::FileStorage(), arguments.follow_order);
  for (plan::Problem& problem : train::problems_of_following(plan, world_size, order, arguments.follow_order))
    problems.push_back(std::move(problem));
  return problems;
}

int run(const TrainArguments& arguments, const Environment& env) {
  plan::Plan plan = plan::read_plan(arguments.recipe, arguments.overrides);
  std::vector<plan::Problem> problems;
  Identification who = identify(env);
  for (const std::string& sentence : who.problems) problems.push_back({"environment", sentence});
  Identity identity = who.identity;
  bool local_worker = env.contains(kLocalWorker);
  bool launches = arguments.workers > 0 && !local_worker;
  if (launches && identity.world_size > 1)
    problems.push_back(
        {"--workers",
         fmt::format("{} has started this process as one of {} already: drop --workers, or the launcher",
                     identity.origin, identity.world_size)});
  int world_size = launches ? arguments.workers : identity.world_size;
  for (plan::Problem& problem : check_run(plan, world_size)) problems.push_back(std::move(problem));
  plan::require_legal(problems);
  plan::require_legal(problems_of_order(arguments, plan, world_size));

  std::string out = arguments.out.empty() ? "runs/" + plan.name : arguments.out;
  if (arguments.dry_run) {
    print_dry_run(plan, world_size);
    return 0;
  }
  if (launches && arguments.workers > 1) return train_with_local_workers(arguments, plan, out);
  const std::atomic<bool>& stop = install_stop_signals();
  if (identity.rank == 0 && !local_worker) {
    data::FileStorage storage;
    if (!arguments.record_order.empty()) require_writable(storage, arguments.record_order);
    prepare_output(storage, out, existing(arguments));
    if (world_size > 1) say("recognised " + identity.text);
  }
  RankRun rank(arguments, plan, identity, stop);
  return rank.run(out, find_secret(plan, env));
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  const Environment environment = process_environment();
  return run_command(environment, [&] { return run(arguments, environment); });
}

int train_with_local_workers(const TrainArguments& arguments, const plan::Plan& plan,
                             const std::string& out) {
  data::FileStorage storage;
  open_ingredients(plan, storage, 0, arguments.workers);
  if (!arguments.record_order.empty()) require_writable(storage, arguments.record_order);
  prepare_output(storage, out, existing(arguments));
  LocalLaunch launch;
  launch.workers = arguments.workers;
  launch.command_line = arguments.command_line;
  launch.environment = {{kLocalWorker, "1"}};
  launch.say = say;
  launch.output = arguments.worker_output;
  if (arguments.follow_order.empty())
    for (Rank rank : exchange::spared_ranks(plan, arguments.workers)) launch.spared.push_back(rank.value());
  return run_workers(launch);
}

}  // namespace taxon::app
