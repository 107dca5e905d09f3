// Gradients of linear layers as sufficient factors: the same mathematics, other messages.
#include "exchange/compression/factors.h"

#include "model/cost.h"
#include "support/clusters.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

constexpr int kWide = 64;

class TrainFactors : public Train {
 protected:
  static plan::Plan plan_with(const std::string& factors, DType type = DType::Float64) {
    plan::Plan plan = toy_plan(type);
    plan.length.steps = 30;
    plan.exchange.levels[0].factors = plan::choice_from<plan::FactorUse>(factors).value();
    return plan;
  }
  TrainingJob wide_job(int ranks, const plan::Plan& plan) {
    TrainingJob wide = job(ranks, plan);
    wide.make_model = [options = model_options(plan)](int rank) {
      auto own = options;
      own.seed = static_cast<std::uint64_t>(rank);
      own.hidden = kWide;
      return std::make_unique<model::Perceptron>(own);
    };
    return wide;
  }
  static std::vector<std::string> chosen(const TrainingResult& result) {
    std::vector<std::string> names;
    for (const auto& bucket : result.recorders[0].info.plan.resolved.buckets)
      if (bucket.factors > 0) names.push_back(bucket.parameters.at(0));
    return names;
  }
  static bool noticed(const TrainingResult& result, const std::string& words) {
    for (const std::string& notice : result.recorders[0].notices)
      if (notice.find(words) != std::string::npos) return true;
    return false;
  }
};

/// The last batch of an epoch has 4 samples: of eight ranks four have one, and four have none.
TEST_F(TrainFactors, GiveTheDenseRunsWeightsAtAnyNumberOfRanks) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    SCOPED_TRACE(ranks);
    const auto dense = run_training(job(ranks, plan_with("none")));
    const auto factors = run_training(job(ranks, plan_with("always")));
    EXPECT_EQ(chosen(factors), (std::vector<std::string>{"out.weight", "hidden.weight"}));
    EXPECT_LT(relative_distance(dense.parameters, factors.parameters), 1e-10);
    for (const auto& outcome : factors.outcomes)
      EXPECT_EQ(outcome.parameter_hash, factors.outcomes[0].parameter_hash);
    const auto narrow = run_training(job(ranks, plan_with("always", DType::Float32)));
    EXPECT_LT(relative_distance(dense.parameters, narrow.parameters), 1e-5);
  }
}

TEST_F(TrainFactors, AreChosenByTheRuleWhereTheyAreFewer) {
  plan::Plan plan = plan_with("auto");
  plan.batch.global = 4;  // K = 1 at 4 ranks: 3 (M + N) against 1.5 M N
  const auto few = run_training(wide_job(4, plan));
  EXPECT_EQ(chosen(few), (std::vector<std::string>{"out.weight", "hidden.weight"}));
  EXPECT_TRUE(noticed(few, "travel the gradients of out.weight, hidden.weight"));
  plan.batch.global = 8;  // K = 2: 6 (64 + 3) = 402 against 1.5 64 3 = 288, and 6 (64 + 6) = 420 against 576
  EXPECT_EQ(chosen(run_training(wide_job(4, plan))), std::vector<std::string>{"hidden.weight"});
  plan.batch.global = 24;
  const auto none = run_training(wide_job(4, plan));
  EXPECT_TRUE(chosen(none).empty());
  EXPECT_TRUE(noticed(none, "no layer's gradient"));
}

TEST_F(TrainFactors, CountWhatTheySendAndInTheVirtualWorldWhatTheyCost) {
  plan::Plan plan = plan_with("always", DType::Float32);
  plan.batch.global = 20;  // 5 steps an epoch, all of 20 samples
  plan.length.steps = 10;
  const int ranks = 4;
  plan::ClusterModel cluster = separate_hosts(ranks);
  cluster.hosts[0].device.flops = 1e6;
  cluster.hosts[0].device.memory_bandwidth = 1e15;
  const auto result = run_virtual_training(wide_job(ranks, plan), cluster);
  const double samples = 5, weights = kWide * (kInputs + kClasses);
  const double factors = samples * (2 * kWide + kInputs + kClasses) * sizeof(float) * (ranks - 1);
  for (const auto& outcome : result.outcomes) {
    ASSERT_EQ(outcome.codecs.size(), 1u);
    const train::CodecReport& report = outcome.codecs[0];
    EXPECT_EQ(report.codec, "sufficient factors");
    EXPECT_NEAR(report.decode_seconds, 2 * ranks * samples * weights / 1e6, 1e-6);
    EXPECT_EQ(report.encode_seconds, 0);
    EXPECT_GT(report.sent_bytes, factors);
    EXPECT_LT(report.sent_bytes, factors + 2 * sizeof(float) * (kWide + kClasses + 3 + 3 * 16));
  }
}

TEST_F(TrainFactors, TheVirtualWorldGivesLoopbacksBits) {
  for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward})
    for (int ranks : {2, 3, 5}) {
      plan::Plan plan = plan_with("always", DType::Float32);
      plan.exchange.overlap = overlap;
      plan.exchange.in_flight = 2;
      plan.optimiser.clip_norm = 0.5;
      TrainingJob between = wide_job(ranks, plan);
      between.share_memory = false;
      const auto expected = run_training(between);
      for (std::uint64_t seed : {1, 2}) {
        const auto result = run_virtual_training(between, delayed(separate_hosts(ranks)), seed);
        EXPECT_EQ(result.outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash);
        EXPECT_EQ(result.outcomes[0].bytes_sent_per_step, expected.outcomes[0].bytes_sent_per_step);
      }
    }
}

TEST_F(TrainFactors, SpareTheBackwardPassItsProducts) {
  model::Perceptron model(model_options(toy_plan()));
  const model::ModelSpec& spec = model.spec();
  tensor::ArenaLayout layout(DType::Float32);
  model::Binding binding;
  for (int parameter : {3, 2, 1, 0}) {
    layout.add(spec.parameters[static_cast<std::size_t>(parameter)].name,
               spec.parameters[static_cast<std::size_t>(parameter)].shape);
    binding.parameters.push_back(parameter);
  }
  binding.layout = &layout;
  const std::vector<std::int64_t> labels(10);
  const model::StepInput input{{}, labels, 10, 1};
  const double whole = model::step_cost(spec, input, 0, binding).cost.flops;
  binding.factor_slots = {{.slot = 3, .rows = 10}};  // hidden.weight
  EXPECT_NEAR(model::step_cost(spec, input, 0, binding).cost.flops, whole - 10 * 2 * kHidden * kInputs, 1e-9);
}

/// Where no layer has factors nothing changes.
TEST_F(TrainFactors, AModelWithoutThemDoesNotNotice) {
  plan::Plan plan = plan_with("always");
  plan.model.frozen = {"hidden.weight", "out.weight"};
  const auto biases = run_training(job(3, plan));
  EXPECT_TRUE(chosen(biases).empty());
  plan.exchange.levels[0].factors = plan::FactorUse::None;
  EXPECT_EQ(run_training(job(3, plan)).outcomes[0].parameter_hash, biases.outcomes[0].parameter_hash);
}

}  // namespace
}  // namespace taxon::test
