// Training with points of one's own on the axes of the exchange: a topology (median.h), an outer rule
// (by_sign.h), a codec (stochastic_top_k.h) and a consistency (workers at most two meetings apart). Taxon has
// none of the four. Each has a row of the form that Taxon's tables are of, and the rows go along with the
// plan that names them, which may be a recipe's.
#include <taxon/comm.h>
#include <taxon/dataset.h>
#include <taxon/model.h>
#include <taxon/plan.h>
#include <taxon/train.h>

#include <cmath>
#include <iostream>

#include "by_sign.h"
#include "median.h"
#include "stochastic_top_k.h"

using namespace taxon;

const exchange::TopologyRow kTopologies[] = {median()};
constexpr optim::OuterRow kRules[] = {{"by_sign", "one rate towards the mean", BySign::make, 1}};
const codec::CodecRow kCodecs[] = {stochastic_top_k()};
const exchange::Extensions kOwn{.topologies = kTopologies, .outer_rules = kRules, .codecs = kCodecs};

struct Quiet final : train::Observer {
  void started(const train::RunInfo&) override {}
  void stepped(const train::StepReport&) override {}
  void evaluated(const train::Evaluation&) override {}
  void saved(const std::string&) override {}
  void noticed(const std::string& sentence) override { std::cout << sentence << "\n"; }
};

struct Result {
  std::vector<double> before, after;
  double accuracy = 0;
};

task::Task<void> train_rank(net::Transport* transport, const plan::Plan* plan, Result* result) {
  tensor::CpuDevice device(transport->executor());
  comm::FlightRecorder recorder;
  comm::Runtime runtime{*transport, device, recorder};
  const data::Datasets data{std::make_unique<data::Blobs>(data::BlobOptions{.size = 240, .seed = 1}),
                            std::make_unique<data::Blobs>(data::BlobOptions{.size = 60, .seed = 2})};
  model::Perceptron model({.shape = data.train->shape()});
  data::MemoryStorage storage;
  Quiet observer;
  result->before = model.parameters();
  train::TrainContext world{runtime, model, data, storage, observer};
  train::TrainOptions options{.plan = *plan, .own = kOwn};
  auto training = train::train(world, std::move(options));
  const train::Outcome outcome = co_await training;
  result->after = model.parameters();
  result->accuracy = outcome.test.scores["accuracy"];
}

task::Task<void> train_all(net::LoopbackWorld* world, const plan::Plan* plan, std::vector<Result>* results) {
  task::PendingOps waits;
  task::Scope ranks(waits);
  for (int r = 0; r < world->size(); ++r)
    ranks.spawn(train_rank(&world->transport(Rank(r)), plan, &(*results)[static_cast<std::size_t>(r)]));
  co_await ranks.join();
}

/// What rank 0 has in the end. Throws Error for a plan that the legality table refuses.
Result train_plan(int ranks, const plan::Plan& plan) {
  plan::require_legal(plan::check_plan(plan, ranks, taxon::catalogue(kOwn)));
  task::PollLoop loop;
  net::LoopbackWorld world(loop, ranks);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  auto all = train_all(&world, &plan, &results);
  loop.run(std::move(all));
  return results.front();
}

Result train_with(int ranks, plan::LevelPlan level) {
  plan::Plan plan;
  plan.precision = {DType::Float64, DType::Float64};
  plan.batch.global = 12;
  plan.length.steps = 48;
  plan.learning_rate.base = 0.2;
  plan.model.name = "perceptron";
  plan.data.dataset = "blobs";
  plan.exchange.levels = {std::move(level)};
  return train_plan(ranks, plan);
}

/// A recipe that names the codec and gives its key a value.
plan::Plan codec_recipe(const std::string& explore) {
  const plan::Catalogue known = taxon::catalogue(kOwn);
  return plan::parse_plan(
      "model: {name: perceptron}\n"
      "data: {dataset: blobs}\n"
      "batch: {global: 12}\n"
      "length: {steps: 96}\n"
      "optimiser: {rule: sgd}\n"
      "learning_rate: {base: 0.2}\n"
      "exchange: {levels: [{codec: {name: stochastic_top_k, density: 0.5, explore: " +
          explore + "}}]}",
      "recipe", {}, &known);
}

/// The reader refuses what the row's key does not allow, and says what it does.
bool refuses(const std::string& explore) try {
  codec_recipe(explore);
  return false;
} catch (const Error& error) {
  std::cout << error.what() << "\n";
  return std::string(error.what()).find("codec.explore must be a number, at least 0 and at most 1") !=
         std::string::npos;
}

/// Half of the bytes that the same gradient takes as it is, with a place beside each value.
double bytes_of(const plan::Plan& plan, std::size_t values) {
  const plan::BucketPlan bucket{.parameters = {"w"},
                                .bytes = static_cast<std::int64_t>(values * sizeof(float))};
  const exchange::LevelShape shapes[] = {{.size = 2}};
  return exchange::bytes_sent(bucket, plan.exchange.levels, {.shapes = shapes, .own = {.codecs = kCodecs}});
}

/// Every weight ends an even number of rates, at most `updates`, from where it began.
bool counts_in_rates(const Result& result, double rate, int updates) {
  for (std::size_t i = 0; i < result.after.size(); ++i) {
    const double rates = (result.after[i] - result.before[i]) / rate;
    if (std::abs(std::remainder(rates, 2)) > 1e-9 || std::abs(rates) > updates + 1e-9) return false;
  }
  return result.accuracy > 0.9;
}

int main() try {
  // The median of two is their mean.
  const Result median = train_with(2, {.topology = "median"}),
               sum = train_with(2, {.topology = "all_reduce"});
  if (median.after != sum.after || median.accuracy < 0.9)
    return std::cout << "the median of two is not their mean\n", 1;
  const double rate = 1.0 / 64;
  plan::LevelPlan meets{.topology = "all_reduce", .rule = "by_sign", .period = 4, .rate = rate};
  if (!counts_in_rates(train_with(4, meets), rate, 12)) return std::cout << "12 meetings by sign: wrong\n", 1;
  // Four workers meet the servers 12 times each, in whatever order; nobody is more than two meetings ahead.
  meets.topology = "servers";
  meets.options = {{"staleness", 2}, {"apply", 1}};
  if (!counts_in_rates(train_with(4, meets), rate, 48)) return std::cout << "48 updates by sign: wrong\n", 1;
  const plan::Plan recipe = codec_recipe("0.25");
  std::cout << "what travels: " << plan::axes_of(recipe, taxon::catalogue(kOwn)).compression << ", "
            << bytes_of(recipe, 1 << 20) << " bytes of 4194304 values' bytes\n";
  if (bytes_of(recipe, 1 << 20) != 2 * 4 * (1 << 19) + sizeof(codec::Head))
    return std::cout << "wrong bytes\n", 1;
  if (train_plan(4, recipe).accuracy < 0.9 || !refuses("1.5")) return std::cout << "codec: wrong\n", 1;
  std::cout << "median, by_sign, a staleness of two and stochastic_top_k: trained as they should\n";
} catch (const Error& error) {
  std::cout << error.what() << "\n";
  return 1;
}
