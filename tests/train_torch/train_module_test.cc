// A program's own modules trained by train(), as ranks that are processes.
#include "taxon/train_module.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "data/number_dataset.h"
#include "support/training.h"
#include "train_torch/job_ranks.h"

namespace taxon::test {
namespace {

using testing::Each;
using testing::HasSubstr;
using namespace torch::nn;

plan::Plan plan_in_double(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {
      "transport.kind=tcp",        "optimiser.rule=momentum", "learning_rate.schedule=constant",
      "learning_rate.base=0.05",   "batch.global=23",         "length.steps=12",
      "precision.compute=float64", "precision.master=float64"};
  all.insert(all.end(), settings.begin(), settings.end());
  return plan::override_plan(plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml"), all);
}

/// The bundled mlp's layers, names and initial weights.
Sequential perceptron() {
  torch::manual_seed(1);  // the recipe's
  return Sequential({{"flatten", Flatten()},
                     {"fc1", Linear(8, 256)},
                     {"relu1", ReLU()},
                     {"fc2", Linear(256, 128)},
                     {"relu2", ReLU()},
                     {"fc3", Linear(128, 4)}});
}

/// The same, for nobody to look into.
struct WholeImpl : Module {
  WholeImpl() : layers(register_module("layers", perceptron())) {}
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }
  Sequential layers;
};
TORCH_MODULE(Whole);

torch::Tensor cross_entropy(const torch::Tensor& outputs, const torch::Tensor& targets) {
  return functional::cross_entropy(outputs, targets);
}

void say_outcome(const train::Outcome& outcome, const ProcessLog& log) {
  log.say(fmt::format("parameters {:a} {:a}", outcome.test.loss, outcome.test.scores["accuracy"]));
}

void train_bundled(job::Job& job, const ProcessLog& log) {
  const job::TrainingInputs inputs = open_training_inputs(job);
  job::Notices nobody(job.options());
  job::train(job, *inputs.model, inputs.datasets, nobody);
  std::string line = "parameters";
  for (double value : inputs.model->parameters()) line += fmt::format(" {:a}", value);
  log.say(line);
}

struct WayCase {
  const char* name;
  int ranks;
  void (*train)(job::Job& job, const data::Datasets& data, const ProcessLog& log);
};
class ModuleByWays : public testing::TestWithParam<WayCase> {};

TEST_P(ModuleByWays, ComesToWhatTheBundledNetworkComesTo) {
  TAXON_SKIP_UCX;
  const ProcessLog bundled, own;
  ASSERT_THAT(run_ranks(1, plan_in_double({"model.name=mlp"}), train_bundled, bundled), Each(0))
      << bundled.read();
  const auto program = [](job::Job& job, const ProcessLog& log) {
    const job::TrainingInputs inputs = open_training_data(job);
    EXPECT_EQ(inputs.model, nullptr);
    GetParam().train(job, inputs.datasets, log);
  };
  ASSERT_THAT(run_ranks(GetParam().ranks, plan_in_double({"batch.micro_batches=2"}), program, own), Each(0))
      << own.read();
  const auto all = parameters_in(own);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(GetParam().ranks));
  for (const auto& values : all)
    EXPECT_THAT(values, testing::Pointwise(testing::DoubleNear(1e-12), parameters_in(bundled).at(0)));
}

INSTANTIATE_TEST_SUITE_P(
    Of, ModuleByWays,
    testing::Values(WayCase{"TasksLoss", 1,
                            [](job::Job& job, const data::Datasets& data, const ProcessLog& log) {
                              Sequential net = perceptron();
                              job::train(job, net, data);
                              say_parameters(*net, log);
                            }},
                    WayCase{"OwnLoss", 3,
                            [](job::Job& job, const data::Datasets& data, const ProcessLog& log) {
                              Sequential net = perceptron();
                              job::train(job, net, cross_entropy, data);
                              say_parameters(*net, log);
                            }},
                    WayCase{"Reference", 2,
                            [](job::Job& job, const data::Datasets& data, const ProcessLog& log) {
                              WholeImpl net;
                              job::train(job, net, cross_entropy, data);
                              say_parameters(net, log);
                            }},
                    WayCase{"Pointer", 2,
                            [](job::Job& job, const data::Datasets& data, const ProcessLog& log) {
                              const auto net = std::make_shared<WholeImpl>();
                              Recorder observer;
                              job::train(job, net, data, observer);
                              EXPECT_EQ(observer.steps.size(), 12U);
                              say_parameters(*net, log);
                            }}),
    [](const auto& info) { return info.param.name; });

/// Of the program's loss, and the task's scores.
TEST(TrainModule, EvaluatesWithTheProgramsLoss) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog&) {
    const job::TrainingInputs inputs = open_training_data(job);
    const auto twice = [](const torch::Tensor& outputs, const torch::Tensor& targets) {
      return 2 * cross_entropy(outputs, targets);
    };
    Whole net;
    Recorder observer;
    const train::Outcome outcome = job::train(job, net, twice, inputs.datasets, observer);
    std::vector<std::int64_t> all(static_cast<std::size_t>(inputs.datasets.test->size()));
    std::iota(all.begin(), all.end(), 0);
    data::Samples samples = data::read_samples(*inputs.datasets.test, all);
    const auto values = data::numbers(samples.parts[0]);
    const auto labels = data::whole(samples.labels);
    const auto size = static_cast<std::int64_t>(labels.size());
    const auto
        x = torch::tensor(torch::ArrayRef(values.data(), values.size())).view({size, 8}).to(torch::kDouble),
        y = torch::tensor(torch::ArrayRef(labels.data(), labels.size()));
    torch::NoGradGuard none;
    net->eval();
    EXPECT_NEAR(outcome.test.loss, twice(net->forward(x), y).item<double>(), 1e-12);
    EXPECT_DOUBLE_EQ(outcome.test.scores["accuracy"],
                     net->forward(x).argmax(1).eq(y).to(torch::kDouble).mean().item<double>());
    EXPECT_LT(observer.steps.back().loss, observer.steps.front().loss);
    EXPECT_GT(observer.steps.back().scores["accuracy"], 0);
  };
  EXPECT_THAT(run_ranks(2, plan_in_double({}), program, log), Each(0)) << log.read();
}

struct DividedRun {
  const char* name;
  int ranks;
  std::vector<std::string> settings;
};
class DividedModule : public testing::TestWithParam<DividedRun> {};

TEST_P(DividedModule, ComesToWhatOneRankComesTo) {
  TAXON_SKIP_UCX;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    Sequential net = perceptron();
    say_outcome(job::train(job, net, cross_entropy, open_training_data(job).datasets), log);
  };
  const ProcessLog one, many;
  ASSERT_THAT(run_ranks(1, plan_in_double({}), program, one), Each(0)) << one.read();
  ASSERT_THAT(run_ranks(GetParam().ranks, plan_in_double(GetParam().settings), program, many), Each(0))
      << many.read();
  for (const auto& outcome : parameters_in(many))
    EXPECT_THAT(outcome, testing::Pointwise(testing::DoubleNear(1e-10), parameters_in(one).at(0)));
}

INSTANTIATE_TEST_SUITE_P(
    Of, DividedModule,
    testing::Values(
        DividedRun{"Stages", 3, {"mesh.pipeline=3", "batch.micro_batches=4", "pipeline.schedule=1f1b"}},
        DividedRun{"Members", 2, {"mesh.tensor=2"}},
        DividedRun{"ChosenSplits", 2, {"mesh.tensor=2", "mesh.splits=[auto]"}},
        DividedRun{"Everything", 4, {"mesh.pipeline=2", "mesh.tensor=2", "batch.micro_batches=2"}},
        DividedRun{"ShardedWeights",
                   3,
                   {"exchange.levels=[{topology: sharded, parameters: sharded}]", "exchange.order=backward",
                    "exchange.gradients=ring"}},
        DividedRun{"Sharded", 2, {"exchange.levels=[{topology: sharded}]"}}),
    [](const auto& info) { return info.param.name; });

class ModuleFamilies : public testing::TestWithParam<const char*> {};

TEST_P(ModuleFamilies, TrainIt) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    Whole net;
    Recorder observer;
    job::train(job, net, cross_entropy, open_training_data(job).datasets, observer);
    EXPECT_LT(observer.evaluations.back().loss, 1.2);  // from ln 4
    say_parameters(*net, log);
  };
  const plan::Plan plan = plan_in_double({fmt::format("exchange.levels={}", GetParam()), "length.steps=30",
                                          "precision.compute=float32", "precision.master=float32"});
  ASSERT_THAT(run_ranks(3, plan, program, log), Each(0)) << log.read();
  const auto all = parameters_in(log);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

INSTANTIATE_TEST_SUITE_P(Of, ModuleFamilies,
                         testing::Values("[{codec: {name: top_k, density: 0.1}}]",
                                         "[{topology: sharded, codec: {name: int8}}]",
                                         "[{rule: average, period: 3}]",
                                         "[{topology: gossip, rule: average, graph: ring}]",
                                         "[{topology: servers, staleness: 2, apply: 1}]"),
                         [](const auto& info) { return std::to_string(info.index); });

TEST(TrainModule, AStoppedRunGoesOnFromItsCheckpointToTheSameEnd) {
  TAXON_SKIP_UCX;
  const std::string folder = fmt::format("{}/own-module-{}", testing::TempDir(), getpid());
  const auto part = [&](train::TrainOptions::Start start, std::int64_t stop_after) {
    return [=](job::Job& job, const ProcessLog& log) {
      torch::manual_seed(2);
      Sequential net(Linear(8, 32), BatchNorm1d(32), ReLU(), Dropout(0.2), Linear(32, 4));
      std::atomic<bool> stop = false;
      Recorder observer;
      observer.on_step = [&](const train::StepReport& report) { stop = report.step == stop_after; };
      job::train(job, net, cross_entropy, open_training_data(job).datasets, observer,
                 {.out = folder, .start = start, .stop = &stop});
      say_parameters(*net, log);
    };
  };
  using Start = train::TrainOptions::Start;
  const plan::Plan plan = plan_in_double({"exchange.levels=[{codec: {name: top_k, density: 0.1}}]",
                                          "precision.compute=float32", "precision.master=float32"});
  const ProcessLog whole, first, second;
  ASSERT_THAT(run_ranks(2, plan, part(Start::Fresh, 0), whole), Each(0)) << whole.read();
  std::filesystem::remove_all(folder);
  ASSERT_THAT(run_ranks(2, plan, part(Start::Fresh, 7), first), Each(0)) << first.read();
  ASSERT_THAT(run_ranks(2, plan, part(Start::Resume, 0), second), Each(0)) << second.read();
  std::filesystem::remove_all(folder);
  EXPECT_NE(parameters_in(first).at(0), parameters_in(whole).at(0));
  EXPECT_EQ(parameters_in(second).at(0), parameters_in(whole).at(0));
}

/// Two inputs and real targets of the program's own; the module makes the loss.
struct PairImpl : Module {
  PairImpl() : x(register_module("x", Linear(3, 2))), y(register_module("y", Linear(2, 2))) {}
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& a, const torch::Tensor& b,
                                                   const torch::Tensor& targets) {
    const torch::Tensor given = x(a) + y(b);
    return {torch::l1_loss(given, targets), given};
  }
  Linear x, y;
};

data::Datasets pairs() {
  std::vector<float> first, second, targets;
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j < 3; ++j) first.push_back(std::sin(static_cast<float>(3 * i + j)));
    for (int j = 0; j < 2; ++j) second.push_back(std::cos(static_cast<float>(5 * i + j)));
    targets.insert(targets.end(), {first[first.size() - 1] + 1, second.back() - first[first.size() - 2]});
  }
  const data::SampleShape shape{.input = {3},
                                .classes = 2,
                                .target = {2},
                                .target_type = DType::Float32,
                                .more = {{{2}, DType::Float32}}};
  const auto set = [&] {
    return std::make_unique<data::NumberDataset>(shape, data::Samples({first, second}, targets));
  };
  return {set(), set()};
}

TEST(TrainModule, ReturnsItsLossOfSeveralInputs) {
  TAXON_SKIP_UCX;
  const ProcessLog one, two;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    torch::manual_seed(5);
    PairImpl net;
    Recorder observer;
    const train::Outcome outcome = job::train(job, net, returns_loss, pairs(), observer);
    EXPECT_LT(outcome.test.loss, 0.7 * observer.steps.front().loss);
    EXPECT_GT(outcome.test.scores["r2"], 0.2);
    say_parameters(net, log);
  };
  const plan::Plan plan = plan_in_double({"length.steps=40", "batch.global=9"});
  ASSERT_THAT(run_ranks(1, plan, program, one), Each(0)) << one.read();
  ASSERT_THAT(run_ranks(2, plan, program, two), Each(0)) << two.read();
  EXPECT_THAT(parameters_in(two).at(1),
              testing::Pointwise(testing::DoubleNear(1e-10), parameters_in(one).at(0)));
}

/// What fails on one rank alone all ranks hear of.
TEST(TrainModule, EndsAllRanksInWords) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog&) {
    Sequential net(Linear(8, job.rank() == 1 ? 5 : 4));
    job::train(job, net, open_training_data(job).datasets);
  };
  EXPECT_THAT(run_ranks(3, plan_in_double({}), program, log), Each(1));
  EXPECT_THAT(
      log.read(),
      HasSubstr("[1] model torch::nn::SequentialImpl must map a batch of 2 to logits of shape [2, 4], "
                "but gave [2, 5]"));
  for (int rank : {0, 2})
    EXPECT_THAT(log.read(), testing::ContainsRegex(fmt::format("\\[{}\\] .*rank 1", rank)));
}

}  // namespace
}  // namespace taxon::test
