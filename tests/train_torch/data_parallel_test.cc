// A program's own loop, as ranks that are processes.
#include "taxon/data_parallel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "train_torch/job_ranks.h"

namespace taxon::test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::int64_t kSamples = 100, kInputs = 6, kOutputs = 3;

/// Two layers, a parameter that no pass uses, and one that is not trained.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(kInputs, 8));
    second = register_module("second", Linear(8, kOutputs));
    unused = register_parameter("unused", torch::ones({4}));
    fixed = register_parameter("fixed", torch::full({kOutputs}, 0.5), false);
    to(torch::kFloat64);  // a run casts it to its own type
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return second(torch::tanh(first(x.to(fixed.scalar_type())))) + fixed;
  }
  torch::nn::Linear first{nullptr};
  Linear second{nullptr};
  torch::Tensor unused, fixed;
};
TORCH_MODULE(Net);

struct Set {
  torch::Tensor x, y;
  Set() {
    torch::manual_seed(9);
    x = torch::randn({kSamples, kInputs}, torch::kFloat64);
    y = x.slice(1, 0, kOutputs).argmax(1);  // so that every family can learn it
  }
  std::pair<torch::Tensor, torch::Tensor> take(std::span<const std::int64_t> share) const {
    const auto indices = torch::tensor(std::vector<std::int64_t>(share.begin(), share.end()), torch::kLong);
    return {x.index_select(0, indices), y.index_select(0, indices)};
  }
};

plan::Plan plan_with(const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"transport.kind=tcp", "optimiser.rule=momentum",
                                  "learning_rate.schedule=constant", "batch.global=23", "length.steps=12"};
  all.insert(all.end(), settings.begin(), settings.end());
  return plan::override_plan(plan::read_plan(TAXON_SOURCE_DIR "/recipes/blobs-perceptron.yaml"), all);
}
const std::vector<std::string> kDouble = {"precision.compute=float64", "precision.master=float64"};

/// Of a loss that any share has.
void compute_step(DataParallel<Net>& model, const Set& set) {
  model.forward(set.take(model.share()).first).sum().backward();
  model.step();
}

template <WeightsAtBegin weights>
void train(job::Job& job, const ProcessLog& log) {
  const Set set;
  Net net;
  DataParallel model(job, net, {.samples = kSamples, .weights = weights});
  while (model.active()) {
    auto [x, y] = set.take(model.share());
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model.forward(x), y);
    loss.backward();
    model.step(loss.item<double>());
  }
  EXPECT_EQ(model.outcome().samples, 2 * kSamples + 2 * 23);  // the fifth step of an epoch takes what is left
  // Each gradient is born where it travels from, once its place is known.
  EXPECT_EQ(model.outcome().copies_per_step, 0);
  say_parameters(*net, log);
}

/// The same by hand, in the samples' order of one rank.
void train_plainly(job::Job& job, const ProcessLog& log) {
  const Set set;
  std::vector<std::vector<std::int64_t>> order;
  {
    Net net;
    DataParallel model(job, net, {.samples = kSamples});
    while (model.active()) {
      order.emplace_back(model.share().begin(), model.share().end());
      compute_step(model, set);
    }
  }
  Net net;
  torch::optim::SGD rule(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  for (const auto& share : order) {
    auto [x, y] = set.take(share);
    rule.zero_grad();
    torch::nn::functional::cross_entropy(net->forward(x), y).backward();
    rule.step();
  }
  say_parameters(*net, log);
}

class DataParallelRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, DataParallelRanks, testing::Values(1, 2, 3, 4));

TEST_P(DataParallelRanks, TrainToWhatOneProcessTrainsTo) {
  TAXON_SKIP_UCX;
  const ProcessLog log, plain;
  const plan::Plan plan = plan_with(kDouble);
  ASSERT_THAT(run_ranks(1, plan, train_plainly, plain), Each(0)) << plain.read();
  const ProcessLog early;
  ASSERT_THAT(run_ranks(GetParam(), plan, train<WeightsAtBegin::Whole>, log), Each(0)) << log.read();
  ASSERT_THAT(run_ranks(GetParam(), plan, train<WeightsAtBegin::AsRead>, early), Each(0)) << early.read();
  const auto all = parameters_in(log);
  const auto expected = parameters_in(plain).at(0);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(GetParam()));
  for (const auto& values : all)
    EXPECT_THAT(values, testing::Pointwise(testing::DoubleNear(1e-10), expected));
  EXPECT_EQ(parameters_in(early), all);
}

/// One layer is taken in three blocks of rows.
struct WideNetImpl : torch::nn::Module {
  static constexpr std::int64_t kWidth = 4096, kRows = 320;  // 128 rows are 2 MiB
  WideNetImpl() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(kInputs, kWidth));
    down = register_module("down", Linear(kWidth, kRows));
    last = register_module("last", torch::nn::Linear(kRows, kOutputs));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return last(torch::relu(down(torch::relu(first(x.to(torch::kFloat32))))));
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  Linear down{nullptr};
};
TORCH_MODULE(WideNet);

template <WeightsAtBegin weights>
void train_wide(job::Job& job, const ProcessLog& log) {
  const Set set;
  WideNet net;
  DataParallel model(job, net, {.samples = kSamples, .weights = weights});
  while (model.active()) {
    auto [x, y] = set.take(model.share());
    torch::nn::functional::cross_entropy(model.forward(x), y).backward();
    model.step();
  }
  say_parameters(*net->last, log);
}

TEST(DataParallel, ALayerThatIsReadByRowsComesToTheSameBits) {
  TAXON_SKIP_UCX;
  const ProcessLog whole, rows;
  const plan::Plan plan = plan_with({"exchange.bucket_bytes=600KiB", "exchange.overlap=forward",
                                     "exchange.order=priority", "length.steps=5"});
  ASSERT_THAT(run_ranks(3, plan, train_wide<WeightsAtBegin::Whole>, whole), Each(0)) << whole.read();
  ASSERT_THAT(run_ranks(3, plan, train_wide<WeightsAtBegin::AsRead>, rows), Each(0)) << rows.read();
  EXPECT_EQ(parameters_in(rows), parameters_in(whole));
}

class DataParallelFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Of, DataParallelFamilies,
    testing::Values("[{topology: sharded}]", "[{codec: {name: top_k, density: 0.1}}]",
                    "[{codec: {name: power_sgd, rank: 1}}]", "[{topology: sharded, codec: {name: int8}}]",
                    "[{rule: average, period: 3}]", "[{topology: gossip, rule: average, graph: ring}]",
                    "[{topology: servers}]", "[{topology: servers, staleness: 2, apply: 1}]",
                    "[{topology: servers, rule: elastic, period: 2, rate: 0.9}]"),
    [](const auto& info) { return std::to_string(info.index); });

TEST_P(DataParallelFamilies, TrainTheOwnLoopsModel) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    const Set set;
    Net net;
    const auto loss_of_all = [&] {
      torch::NoGradGuard none;
      return torch::nn::functional::cross_entropy(net->forward(set.x), set.y).item<double>();
    };
    const double before = loss_of_all();
    {
      DataParallel model(job, net, {.samples = kSamples, .weights = WeightsAtBegin::AsRead});
      while (model.active()) {
        auto [x, y] = set.take(model.share());
        torch::nn::functional::cross_entropy(model.forward(x), y).backward();
        model.step();
      }
    }
    EXPECT_LT(loss_of_all(), before);
    say_parameters(*net, log);
  };
  const plan::Plan plan = plan_with({fmt::format("exchange.levels={}", GetParam()), "length.steps=40"});
  ASSERT_THAT(run_ranks(3, plan, program, log), Each(0)) << log.read();
  const auto all = parameters_in(log);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

/// Keeps what it was given.
struct ViewerImpl : torch::nn::Module {
  ViewerImpl() : scale(register_parameter("scale", torch::ones({1}))) {}
  torch::Tensor forward(const torch::Tensor& images, int times) {
    seen = images;
    return (images * scale).sum() * times;
  }
  torch::Tensor scale, seen;
};
TORCH_MODULE(Viewer);

TEST(DataParallel, ImagesLieInTheOrderOfThePlan) {
  TAXON_SKIP_UCX;
  const auto view = [](job::Job& job, const ProcessLog&) {
    Viewer net;
    DataParallel model(job, net, {.samples = kSamples});
    for (std::int64_t channels = 1; model.active(); channels = 4 - channels) {
      const torch::Tensor images = torch::rand({5, channels, 4, 6});
      model.forward(images, 2).backward();
      EXPECT_TRUE(net->seen.equal(images));
      EXPECT_EQ(net->seen.suggest_memory_format(), at::MemoryFormat::ChannelsLast) << channels;
      model.step();
    }
  };
  const ProcessLog log;
  EXPECT_THAT(run_ranks(1, plan_with({"model.memory_format=channels_last"}), view, log), Each(0))
      << log.read();
}

TEST(DataParallel, PassesUnderNoSyncAddUpToOne) {
  TAXON_SKIP_UCX;
  const ProcessLog whole, halves;
  const auto in_halves = [](job::Job& job, const ProcessLog& log) {
    const Set set;
    Net net;
    DataParallel model(job, net, {.samples = kSamples});
    while (model.active()) {
      auto [x, y] = set.take(model.share());
      const std::int64_t size = y.size(0), half = size / 2;
      const auto backward = [&](std::int64_t begin, std::int64_t end) {
        const auto loss = torch::nn::functional::cross_entropy(
            model.forward(x.slice(0, begin, end)), y.slice(0, begin, end),
            torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
        (loss / static_cast<double>(size)).backward();
      };
      {
        const auto guard = model.no_sync();
        backward(0, half);
      }
      backward(half, size);
      model.step();
    }
    say_parameters(*net, log);
  };
  const plan::Plan plan = plan_with(kDouble);
  ASSERT_THAT(run_ranks(2, plan, train<WeightsAtBegin::Whole>, whole), Each(0)) << whole.read();
  ASSERT_THAT(run_ranks(2, plan, in_halves, halves), Each(0)) << halves.read();
  EXPECT_THAT(parameters_in(halves).at(0),
              testing::Pointwise(testing::DoubleNear(1e-10), parameters_in(whole).at(0)));
}

/// A loss from two forward passes at once, with a penalty that goes around them.
TEST(DataParallel, TermsOfOneLossMayGoThroughSeveralPassesAndAroundThem) {
  TAXON_SKIP_UCX;
  const ProcessLog one, three;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    const Set set;
    Net net;
    DataParallel model(job, net, {.samples = kSamples});
    while (model.active()) {
      auto [x, y] = set.take(model.share());
      auto loss = torch::nn::functional::cross_entropy(model.forward(x), y) +
                  model.forward(-x).pow(2).mean() + net->second->weight.pow(2).sum() * 0.01 * model.weight();
      loss.backward();
      model.step();
    }
    say_parameters(*net, log);
    // The run is over, and gradients are the framework's.
    net->forward(set.x).sum().backward();
    EXPECT_TRUE(net->first->weight.grad().defined());
  };
  const plan::Plan plan = plan_with(kDouble);
  ASSERT_THAT(run_ranks(1, plan, program, one), Each(0)) << one.read();
  ASSERT_THAT(run_ranks(3, plan, program, three), Each(0)) << three.read();
  EXPECT_THAT(parameters_in(three).at(0),
              testing::Pointwise(testing::DoubleNear(1e-10), parameters_in(one).at(0)));
}

class DataParallelWeights : public testing::TestWithParam<WeightsAtBegin> {};
INSTANTIATE_TEST_SUITE_P(Begin, DataParallelWeights,
                         testing::Values(WeightsAtBegin::Whole, WeightsAtBegin::AsRead),
                         [](const auto& info) {
                           return info.param == WeightsAtBegin::Whole ? "Whole" : "AsRead";
                         });

TEST_P(DataParallelWeights, OfAStoppedRunGoOnFromItsCheckpointToTheSameEnd) {
  TAXON_SKIP_UCX;
  const std::string folder = fmt::format("{}/own-loop-{}", testing::TempDir(), getpid());
  const auto part = [&](train::TrainOptions::Start start, std::int64_t stop_after) {
    return [=, weights = GetParam()](job::Job& job, const ProcessLog& log) {
      const Set set;
      Net net;
      DataParallel model(job, net,
                         {.samples = kSamples, .train = {.out = folder, .start = start}, .weights = weights});
      for (std::int64_t step = 1; model.active(); ++step) {
        if (step == stop_after) model.stop();
        auto [x, y] = set.take(model.share());
        torch::nn::functional::cross_entropy(torch::dropout(model.forward(x), 0.2, true), y).backward();
        model.step();
      }
      if (stop_after > 0) {
        EXPECT_EQ(model.outcome().steps, stop_after + 1);  // that on which ranks agreed
      }
      say_parameters(*net, log);
    };
  };
  using Start = train::TrainOptions::Start;
  const plan::Plan plan = plan_with({"exchange.levels=[{codec: {name: top_k, density: 0.1}}]"});
  const ProcessLog whole, first, second;
  ASSERT_THAT(run_ranks(2, plan, part(Start::Fresh, 0), whole), Each(0)) << whole.read();
  std::filesystem::remove_all(folder);
  ASSERT_THAT(run_ranks(2, plan, part(Start::Fresh, 7), first), Each(0)) << first.read();
  ASSERT_THAT(run_ranks(2, plan, part(Start::Resume, 0), second), Each(0)) << second.read();
  std::filesystem::remove_all(folder);
  EXPECT_NE(parameters_in(first).at(0), parameters_in(whole).at(0));
  EXPECT_EQ(parameters_in(second).at(0), parameters_in(whole).at(0));
}

TEST(DataParallel, EndsWhenTheProgramsOwnFlagSaysSo) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog&) {
    const Set set;
    Net net;
    std::atomic<bool> stop = false;
    DataParallel model(job, net, {.samples = kSamples, .train = {.stop = &stop}});
    std::int64_t steps = 0;
    for (; model.active(); ++steps) {
      stop = steps == 3;
      compute_step(model, set);
    }
    EXPECT_EQ(model.outcome().end, train::Outcome::End::Interrupted);
    EXPECT_LT(steps, 10);
  };
  EXPECT_THAT(run_ranks(2, plan_with({}), program, log), Each(0)) << log.read();
}

TEST(DataParallel, ABackwardPassAfterItsEndIsRefused) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog&) {
    const Set set;
    Net net;
    at::Tensor kept;
    {
      DataParallel model(job, net, {.samples = kSamples});
      while (model.active()) {
        const auto x = set.take(model.share()).first;
        kept = model.forward(x).sum();
        model.forward(x).sum().backward();
        model.step();
      }
    }
    kept.backward();
  };
  EXPECT_THAT(run_ranks(1, plan_with({}), program, log), Each(1));
  EXPECT_THAT(log.read(), HasSubstr("a backward pass through outputs of a DataParallel that is gone"));
}

TEST(DataParallel, AStepAfterTheEndIsRefused) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog&) {
    const Set set;
    Net net;
    DataParallel model(job, net, {.samples = kSamples});
    for (;;) {
      compute_step(model, set);
    }
  };
  EXPECT_THAT(run_ranks(1, plan_with({}), program, log), Each(1));
  EXPECT_THAT(log.read(), HasSubstr("ask active() before each step"));
}

/// While a rank computes by itself another one ends: it hears of that when it gives its step back.
TEST(DataParallel, AProgramIsLeftInPeaceWhileItComputes) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    const Set set;
    Net net;
    DataParallel model(job, net, {.samples = kSamples});
    if (job.rank() == 1) {
      while (log.read().find("computes") == std::string::npos)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      throw std::runtime_error("of its own");
    }
    log.say("computes");
    const auto x = set.take(model.share()).first;
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    log.say(alarm(0) > 10 ? "in peace" : "about to be ended");  // by run_processes() alone
    model.forward(x).sum().backward();
    model.step();
  };
  EXPECT_THAT(run_ranks(2, plan_with({}), program, log), Each(1));
  EXPECT_THAT(log.read(), testing::AllOf(HasSubstr("in peace"),
                                         testing::ContainsRegex("\\[0\\] .*rank 1 .*by an exception")));
}

TEST(DataParallel, AFailureThatTheProgramCatchesIsWhatTheOthersHear) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    const Set set;
    Net net;
    DataParallel model(job, net, {.samples = kSamples});
    if (job.rank() == 1) {
      try {
        job.barrier();
      } catch (const Error& error) {
        log.say(error.what());
      }
      return job.fail(Error(ErrorKind::Data, "no such data"));
    }
    while (model.active()) {
      compute_step(model, set);
    }
  };
  EXPECT_THAT(run_ranks(3, plan_with({}), program, log), Each(1));
  EXPECT_THAT(log.read(), HasSubstr("until it is over nothing else can be done"));
  for (int rank : {0, 2})
    EXPECT_THAT(log.read(), testing::ContainsRegex(fmt::format("\\[{}\\] .*rank 1 .*no such data", rank)));
}

/// Of a penalty on how fast the outputs change with the inputs.
TEST(DataParallel, GradientsThatTheProgramTakesAreTheShares) {
  TAXON_SKIP_UCX;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    const Set set;
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(kInputs, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
    {
      DataParallel model(job, net, {.samples = kSamples});
      while (model.active()) {
        const torch::Tensor x = set.take(model.share()).first.requires_grad_();
        const torch::Tensor y = model.forward(x);
        const torch::Tensor slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
        (y.pow(2).mean() + model.weight() * slope.pow(2).mean()).backward();
        model.step();
      }
    }
    say_parameters(*net, log);
  };
  const ProcessLog one, three;
  ASSERT_THAT(run_ranks(1, plan_with(kDouble), program, one), Each(0)) << one.read();
  ASSERT_THAT(run_ranks(3, plan_with(kDouble), program, three), Each(0)) << three.read();
  const auto expected = parameters_in(one).at(0);
  for (const auto& values : parameters_in(three))
    EXPECT_THAT(values, testing::Pointwise(testing::DoubleNear(1e-10), expected));
}

/// Something to add, and what a forward pass may leave out.
struct ShiftedImpl : torch::nn::Module {
  std::tuple<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) { return {x * scale + shift, {}}; }
  torch::Tensor scale = register_parameter("scale", torch::ones({1}));
  torch::Tensor shift = register_buffer("shift", torch::zeros({1}));
};
TORCH_MODULE(Shifted);

TEST(DataParallel, BuffersBeginAsRankZerosAndOutputsMayBeLeftOut) {
  TAXON_SKIP_UCX;
  const auto program = [](job::Job& job, const ProcessLog& log) {
    Shifted net;
    net->shift.fill_(7 + job.rank());
    DataParallel model(job, net, {.samples = kSamples});
    log.say(fmt::format("shift {}", net->shift.item<float>()));
    while (model.active()) {
      const auto [y, none] = model.forward(torch::ones({1}));
      EXPECT_FALSE(none.defined());
      y.sum().backward();
      model.step();
    }
  };
  const ProcessLog log;
  ASSERT_THAT(run_ranks(2, plan_with({}), program, log), Each(0)) << log.read();
  EXPECT_EQ(log.read(), "shift 7\nshift 7\n");
}

struct Misuse {
  const char* name;
  void (*loop)(DataParallel<Net>&, const torch::Tensor&);
  const char* words;
};
class DataParallelMisuse : public testing::TestWithParam<std::tuple<Misuse, WeightsAtBegin>> {};
INSTANTIATE_TEST_SUITE_P(
    Of, DataParallelMisuse,
    testing::Combine(
        testing::Values(
            Misuse{"NoBackward", [](DataParallel<Net>& model, const torch::Tensor&) { model.step(); },
                   "without a backward pass"},
            Misuse{"TwoBackwards",
                   [](DataParallel<Net>& model, const torch::Tensor& x) {
                     model.forward(x).sum().backward();
                     model.forward(x).sum().backward();
                   },
                   "a second backward pass"},
            Misuse{"NoLastBackward",
                   [](DataParallel<Net>& model, const torch::Tensor& x) {
                     const auto guard = model.no_sync();
                     model.forward(x).sum().backward();
                     model.step();
                   },
                   "all ran under no_sync"},
            Misuse{"OtherMemory",
                   [](DataParallel<Net>& model, const torch::Tensor& x) {
                     model.forward(x).sum().backward();
                     torch::Tensor weight = model.module()->first->weight;
                     weight.set_data(torch::zeros_like(weight));
                     model.step();
                   },
                   "parameter first.weight was given other memory"},
            Misuse{"FailedBackward",
                   [](DataParallel<Net>& model, const torch::Tensor& x) {
                     const torch::Tensor leaf = x.detach().requires_grad_();
                     leaf.register_hook([](const torch::Tensor&) { throw std::runtime_error("no"); });
                     try {
                       model.forward(leaf).sum().backward();
                     } catch (const std::runtime_error&) {
                     }
                     model.step();
                   },
                   "a backward pass of this step failed"},
            Misuse{"LeftEarly", [](DataParallel<Net>&, const torch::Tensor&) {}, "left the training loop"}),
        testing::Values(WeightsAtBegin::Whole, WeightsAtBegin::AsRead)),
    [](const auto& info) {
      const bool is_whole = std::get<1>(info.param) == WeightsAtBegin::Whole;
      return std::string(std::get<0>(info.param).name) + (is_whole ? "" : "Early");
    });

TEST_P(DataParallelMisuse, EndsAllRanksInWords) {
  TAXON_SKIP_UCX;
  const ProcessLog log;
  const auto program = [](job::Job& job, const ProcessLog&) {
    const Set set;
    Net net;
    DataParallel model(job, net, {.samples = kSamples, .weights = std::get<1>(GetParam())});
    const bool odd = job.rank() == 1;
    while (model.active()) {
      const auto x = set.take(model.share()).first;
      if (odd) return std::get<0>(GetParam()).loop(model, x);
      model.forward(x).sum().backward();
      model.step();
    }
  };
  EXPECT_THAT(run_ranks(3, plan_with({}), program, log), Each(1));
  EXPECT_THAT(log.read(), HasSubstr(std::get<0>(GetParam()).words));
  for (int rank : {0, 2})
    EXPECT_THAT(log.read(), testing::ContainsRegex(fmt::format("\\[{}\\] .*rank 1", rank)));
}

}  // namespace
}  // namespace taxon::test
