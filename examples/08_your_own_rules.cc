// Training with an update rule (lars.h) and an all-reduce (star.h) of one's own, which a recipe names: on
// this machine, and in the virtual world of a described cluster, with the same bits.
#include <taxon/comm.h>
#include <taxon/dataset.h>
#include <taxon/model.h>
#include <taxon/plan.h>
#include <taxon/simulate.h>
#include <taxon/topology.h>
#include <taxon/train.h>

#include <iostream>

#include "lars.h"
#include "star.h"

using namespace taxon;

const optim::RuleRow kRules[] = {lars()};
const comm::CollectiveRow kCollectives[] = {star()};
const exchange::Extensions kOwn{.rules = kRules, .collectives = kCollectives};

plan::Catalogue catalogue() {
  plan::Catalogue known = exchange::catalogue(kOwn);
  known.models = {"perceptron"};
  known.datasets = data::known_datasets();
  known.transports = {"auto"};
  return known;
}

struct Quiet final : train::Observer {
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport&) override {}
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { std::cout << sentence << "\n"; }
};

struct Result {
  std::vector<double> parameters;
  double accuracy = 0;
};

task::Task<void> train_rank(comm::Runtime* runtime, const plan::Plan* plan, Result* result) {
  const data::Datasets data{std::make_unique<data::Blobs>(data::BlobOptions{.size = 240, .seed = 1}),
                            std::make_unique<data::Blobs>(data::BlobOptions{.size = 60, .seed = 2})};
  model::Perceptron model({.shape = data.train->shape()});
  data::MemoryStorage storage;
  Quiet observer;
  train::TrainContext world{*runtime, model, data, storage, observer};
  train::TrainOptions options{.plan = *plan, .own = kOwn};
  auto training = train::train(world, std::move(options));
  const train::Outcome outcome = co_await training;
  *result = {model.parameters(), outcome.test.accuracy};
}

task::Task<void> train_here(net::Transport* transport, const plan::Plan* plan, Result* result) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  co_await train_rank(&runtime, plan, result);
}

task::Task<void> train_all(net::LoopbackWorld* world, const plan::Plan* plan, std::vector<Result>* results) {
  task::PendingOps waits;
  task::Scope ranks(waits);
  for (int r = 0; r < world->size(); ++r)
    ranks.spawn(train_here(&world->transport(Rank(r)), plan, &(*results)[static_cast<std::size_t>(r)]));
  co_await ranks.join();
}

/// What rank 0 has in the end.
Result train_with(int ranks, const plan::Plan& plan) {
  plan::require_legal(plan::check_plan(plan, ranks, catalogue()));
  task::PollLoop loop;
  net::LoopbackWorld world(loop, ranks);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  auto all = train_all(&world, &plan, &results);
  loop.run(std::move(all));
  return results.front();
}

/// The same on hosts that are only described: 1 Gbit/s between them, collectives as a whole where Taxon knows
/// their course and message by message where they are a program's own.
Result simulate(int ranks, const plan::Plan& plan) {
  plan::HostModel host;
  host.count = ranks;
  host.device = {.flops = 1e9, .memory_bandwidth = 1e9};
  host.network = {.latency = 50e-6, .overhead = 5e-6, .bandwidth = 125e6};
  sim::World world({.hosts = {host}}, ranks, {.collectives = sim::Collectives::Coarse});
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  const sim::Report report = world.run([&](comm::Runtime& runtime) {
    return train_rank(&runtime, &plan, &results[static_cast<std::size_t>(runtime.rank().value())]);
  });
  if (report.failure) std::rethrow_exception(report.failure);
  std::cout << "simulated: " << to_seconds(report.time) << " s\n";
  return results.front();
}

plan::Plan recipe_with(const std::string& trust, std::vector<std::string> overrides = {}) {
  const plan::Catalogue known = catalogue();
  return plan::parse_plan(
      "model: {name: perceptron}\n"
      "data: {dataset: blobs}\n"
      "precision: {compute: float64, master: float64}\n"
      "batch: {global: 24}\n"
      "length: {steps: 96}\n"
      "optimiser: {rule: lars, weight_decay: 0.001, trust: " +
          trust +
          "}\n"
          "learning_rate: {base: 1}\n"
          "exchange: {levels: [{collective: star}]}",
      "recipe", overrides, &known);
}

/// The reader refuses what the row's key does not allow, and says what it does.
bool refuses(const std::string& trust) try {
  recipe_with(trust);
  return false;
} catch (const Error& error) {
  std::cout << error.what() << "\n";
  return std::string(error.what()).find("optimiser.trust must be a number, above 0") != std::string::npos;
}

int main() try {
  const plan::Plan recipe = recipe_with("0.02");
  const plan::BucketPlan bucket{.parameters = {"w"}, .bytes = 1 << 20, .collectives = {"all_reduce star"}};
  const exchange::LevelShape shapes[] = {{.size = 4}};
  std::cout << "optimisation: " << plan::axes_of(recipe, catalogue()).optimisation << ", "
            << exchange::bytes_sent(bucket, recipe.exchange.levels, {.shapes = shapes, .own = kOwn})
            << " bytes for a MiB\n";
  const Result four = train_with(4, recipe);
  if (four.accuracy < 0.9) return std::cout << "lars did not train: " << four.accuracy << "\n", 1;
  // Tensors are whole, whatever the plan says of slices.
  if (train_with(4, recipe_with("0.02", {"exchange.slice_bytes=64"})).parameters != four.parameters)
    return std::cout << "slices change what lars does\n", 1;
  if (simulate(4, recipe).parameters != four.parameters)
    return std::cout << "the virtual world has other bits\n", 1;
  if (!refuses("0")) return std::cout << "a wrong key was read\n", 1;
  std::cout << "lars over a star: trained and simulated as it should\n";
} catch (const Error& error) {
  std::cout << error.what() << "\n";
  return 1;
}
