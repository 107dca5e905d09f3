// Disciplines without a common step, in the virtual world, where one seed is one order of arrivals: what they
// promise of each other, bit for bit.
#include <gtest/gtest.h>

#include "exchange/levels/algorithm_selection.h"
#include "model/perceptron.h"
#include "train/modes.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

class Disciplines : public Train {
 protected:
  static plan::LevelPlan adag(int period) {
    plan::LevelPlan level = asynchronous("moved");
    level.rule = "accumulated";
    level.period = period;
    return level;
  }
  plan::Plan plan_of(plan::LevelPlan level, const std::string& rule = "sgd") {
    auto plan = toy_plan(DType::Float32);
    plan.length.steps = 60;
    plan.learning_rate.base = 0.1;
    plan.optimiser.rule = rule;
    plan.exchange.slice_bytes = 64;
    plan.exchange.levels = {std::move(level)};
    return plan;
  }
  TrainingResult run(plan::Plan plan, std::uint64_t seed = 1, int ranks = 4) {
    TrainingJob training = job(ranks, std::move(plan));
    training.share_memory = false;
    return run_virtual_training(training, delayed(separate_hosts(ranks)), seed);
  }
  /// Seconds of four ranks' training, of which one is ten times slower.
  double time_with_a_slow_rank(plan::Plan plan) {
    TrainingJob training = job(4, std::move(plan));
    training.share_memory = false;
    training.make_model = [options = model_options(training.plan)](int rank) {
      auto costed = options;
      costed.hidden_seconds = costed.out_seconds = {rank == 2 ? 10e-3 : 1e-3, rank == 2 ? 10e-3 : 1e-3};
      return std::make_unique<model::Perceptron>(costed);
    };
    VirtualRun run = run_in_world(training, separate_hosts(4), {.seed = 1});
    if (run.report.failure) std::rethrow_exception(run.report.failure);
    return to_seconds(run.report.time);
  }
};

TEST_F(Disciplines, WithoutCompensationDelayCompensatedIsAsynchronous) {
  const auto plain = run(plan_of(asynchronous()));
  EXPECT_GT(plain.outcomes[0].staleness.size(), 1u);
  for (const char* late : {"compensated", "compensated_adaptively"}) {
    EXPECT_EQ(run(plan_of(asynchronous(late, 0))).parameters, plain.parameters) << late;
    EXPECT_NE(run(plan_of(asynchronous(late, 2))).parameters, plain.parameters) << late;
  }
}

/// Nobody is ever late, and so what servers keep of what they served must be what they have.
TEST_F(Disciplines, WhereWorkersKeepStepThereIsNothingToCompensate) {
  plan::LevelPlan level;
  level.topology = "servers";
  const auto plain = run(plan_of(level, "momentum"));
  for (const char* late : {"compensated", "compensated_adaptively"}) {
    level.late = late;
    level.options.set("compensation", 2);
    EXPECT_EQ(run(plan_of(level, "momentum")).parameters, plain.parameters) << late;
  }
  plan::LevelPlan blocks = meets("block_nesterov", 4, "servers");
  blocks.momentum = 0.5;
  const auto met = run(plan_of(blocks));
  blocks.late = "moved";
  EXPECT_GT(relative_distance(met.parameters, plain.parameters), 1e-3);
  // A replica is W + (x - what was served), where as others it is x: the look-ahead falls out.
  EXPECT_GT(relative_distance(met.parameters, run(plan_of(blocks)).parameters), 1e-3);
  blocks.rule = "block";
  const auto classical = run(plan_of(blocks));
  blocks.late = "as_others";
  EXPECT_LT(relative_distance(run(plan_of(blocks)).parameters, classical.parameters), 1e-5);
}

TEST_F(Disciplines, DelayCompensationAndAccumulationLearn) {
  for (const auto& level :
       {asynchronous("compensated"), asynchronous("compensated_adaptively", 2), adag(5)}) {
    const auto result = run(plan_of(level));
    EXPECT_LT(result.outcomes[0].test.loss, 0.9 * result.recorders[0].evaluations.front().loss) << level.late;
    for (const auto& outcome : result.outcomes)
      EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash) << level.late;
  }
}

/// One worker alone is never late; a period of one step is its step.
TEST_F(Disciplines, AccumulatedOverOneStepIsTheOptimisersStep) {
  auto constant = [&](plan::LevelPlan level) {
    auto plan = plan_of(std::move(level));
    plan.learning_rate.schedule = "constant";
    return run(plan, 1, 1).parameters;
  };
  const auto served = constant(asynchronous());
  EXPECT_LT(relative_distance(served, constant(adag(1))), 1e-5);
  EXPECT_GT(relative_distance(served, constant(adag(5))), 1e-3);
}

TEST_F(Disciplines, AdasumLearnsAsOneModel) {
  auto plan = plan_of(plan::LevelPlan{});
  const auto summed = run(plan);
  for (const Mode& mode : combinations()) {
    mode.apply(plan);
    const auto result = run(plan);
    EXPECT_GT(relative_distance(summed.parameters, result.parameters), 1e-3) << mode.name;
    EXPECT_LT(result.outcomes[0].test.loss, 0.9 * result.recorders[0].evaluations.front().loss) << mode.name;
    for (const auto& outcome : result.outcomes)
      EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash) << mode.name;
  }
}

TEST_F(Disciplines, MomentumIsLoweredAtTheServersUnlessThePlanInsists) {
  auto plan = plan_of(asynchronous(), "momentum");
  plan.optimiser.momentum = 0.9;
  const auto lowered = run(plan);
  ASSERT_EQ(lowered.recorders[0].notices.size(), 2u);
  EXPECT_NE(lowered.recorders[0].notices[0].find("0.9 is 0.6 at the servers"), std::string::npos);
  EXPECT_NE(lowered.recorders[0].notices[1].find("values to and from servers: written into place at rank 0"),
            std::string::npos);
  EXPECT_TRUE(lowered.recorders[1].notices.empty());
  plan.optimiser.asynchronous_momentum = plan::AsynchronousMomentum::AsGiven;
  const auto insisted = run(plan);
  EXPECT_NE(insisted.parameters, lowered.parameters);
  EXPECT_NE(insisted.recorders[0].notices.at(0).find("acts like 0.975"), std::string::npos);
  plan.optimiser.momentum = 1 - (1 - 0.9) * 4;
  EXPECT_EQ(run(plan).parameters, lowered.parameters);
}

class TrainInPairs : public Disciplines {
 protected:
  plan::Plan in_pairs(int period = 1) { return plan_of(meets("average", period, "pairs"), "momentum"); }
};

TEST_F(TrainInPairs, LearnsAndEndsWithOneModel) {
  for (int ranks : {2, 4, 5})
    for (int period : {1, 3}) {
      const auto result = run(in_pairs(period), 1, ranks);
      EXPECT_LT(result.outcomes[0].test.loss, 0.9 * result.recorders[0].evaluations.front().loss) << ranks;
      for (const auto& outcome : result.outcomes) {
        EXPECT_EQ(outcome.end, train::Outcome::End::Complete);
        EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash) << ranks;
      }
    }
}

TEST_F(TrainInPairs, OneOrderOfArrivalsIsOneResult) {
  const auto once = run(in_pairs());
  EXPECT_EQ(run(in_pairs()).parameters, once.parameters);
  EXPECT_NE(run(in_pairs(), 2).parameters, once.parameters);
}

/// As synchronous SGD does, the mean of the replicas moves by the rate times the mean of the gradients; while
/// replicas are near each other, gradients are too.
TEST_F(TrainInPairs, StaysNearSynchronousSgdWhileStepsAreSmall) {
  auto plan = plan_of(meets("average", 1, "pairs"));
  plan.learning_rate.base = 1e-3;
  plan.learning_rate.schedule = "constant";
  const auto paired = run(plan);
  plan.exchange.levels = {plan::LevelPlan{}};
  const auto synchronous = run(plan);
  plan.learning_rate.base = 0;
  const auto initial = run(plan);
  const double way = relative_distance(initial.parameters, synchronous.parameters);
  EXPECT_GT(way, 1e-3);
  EXPECT_LT(relative_distance(synchronous.parameters, paired.parameters), 0.2 * way);
}

TEST_F(TrainInPairs, AnInterruptedRunGoesOn) { expect_that_an_interrupted_run_goes_on(in_pairs()); }

/// One slow rank holds nobody up: in the time of its steps, others take many.
TEST_F(TrainInPairs, NobodyWaitsForASlowRank) {
  EXPECT_LT(2 * time_with_a_slow_rank(in_pairs()), time_with_a_slow_rank(plan_of(plan::LevelPlan{})));
}

/// Omnivore's groups: nodes of two that sum their gradients and push them to servers as one.
class TrainInGroups : public Disciplines {
 protected:
  plan::Plan in_groups(std::int64_t staleness, int apply) {
    auto plan = plan_of(plan::LevelPlan{});
    plan.exchange.levels = {level("node", "sharded"), level("across", "servers")};
    plan.exchange.levels[1].options = {{"staleness", staleness}, {"apply", apply}};
    plan.mesh.node = 2;
    return plan;
  }
};

TEST_F(TrainInGroups, InStepTheyTrainAsSynchronousWorkersDo) {
  auto plan = in_groups(0, 0);
  plan.precision = {DType::Float64, DType::Float64};
  const auto grouped = run(plan);
  plan.exchange.levels = {plan::LevelPlan{}};
  EXPECT_LT(relative_distance(run(plan).parameters, grouped.parameters), 1e-9);
}

TEST_F(TrainInGroups, AsynchronousGroupsLearnAndEndWithOneModel) {
  for (std::int64_t staleness : {-1, 2})
    for (int ranks : {4, 6})
      for (std::uint64_t seed : {1, 2, 3}) {
        auto plan = in_groups(staleness, 1);
        plan.exchange.levels[1].late = "compensated";
        const auto result = run(plan, seed, ranks);
        EXPECT_LT(result.outcomes[0].test.loss, 0.9 * result.recorders[0].evaluations.front().loss);
        for (const auto& outcome : result.outcomes)
          EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash) << seed;
        EXPECT_GT(result.outcomes[0].staleness.size(), 1u);
        for (std::size_t r = 0; r < result.recorders.size(); r += 2)
          EXPECT_EQ(result.recorders[r].steps.size(), result.recorders[r + 1].steps.size()) << seed;
      }
}

TEST_F(TrainInGroups, AnInterruptedRunGoesOn) {
  for (std::int64_t staleness : {-1, 2}) expect_that_an_interrupted_run_goes_on(in_groups(staleness, 1));
}

/// Nobody waits for a slow rank but those of its group.
TEST_F(TrainInGroups, NoGroupWaitsForAnother) {
  EXPECT_LT(2 * time_with_a_slow_rank(in_groups(-1, 1)), time_with_a_slow_rank(in_groups(0, 0)));
}

/// Bytes that leave a rank in a step against the closed forms for m bytes of weights, which headers and what
/// else ranks tell each other may exceed by a hundredth.
class BytesOnTheWire : public Disciplines {
 protected:
  struct Measured {
    double weights = 0;         // bytes of all buckets
    double sent = 0;            // by a rank in a step, the means
    double planned = 0;         // as the plan foretells it
    std::vector<double> steps;  // [rank]
  };
  Measured measure(plan::LevelPlan level, int ranks, int dedicated = 0) {
    auto plan = plan_of(std::move(level));
    plan.length.steps = 12;
    plan.learning_rate.base = 1e-3;
    plan.mesh.servers = dedicated;
    plan.evaluation.every_epochs = 0;
    plan.exchange.bucket_bytes = plan.exchange.slice_bytes = 1 << 20;
    TrainingJob training = job(ranks, plan);
    training.share_memory = false;
    training.make_model = [options = model_options(plan)](int rank) {
      auto large = options;
      large.seed = static_cast<std::uint64_t>(rank);
      large.hidden = 8000;
      return std::make_unique<model::Perceptron>(large);
    };
    const auto result = run_virtual_training(training, delayed(separate_hosts(ranks)), 1);
    Measured measured;
    measured.sent = result.outcomes[0].bytes_sent_per_step;
    const plan::Plan& resolved = result.recorders[0].info.plan;
    const std::vector<exchange::LevelShape> shapes{{ranks, false, dedicated}};
    for (const auto& bucket : resolved.resolved.buckets) {
      measured.weights += static_cast<double>(bucket.bytes);
      measured.planned += exchange::bytes_sent(bucket, resolved.exchange.levels, {shapes});
    }
    for (const auto& recorder : result.recorders)
      measured.steps.push_back(static_cast<double>(recorder.steps.size()));
    return measured;
  }
  static void expect_near(double measured, double expected, const std::string& what) {
    EXPECT_GT(measured, 0.99 * expected) << what;
    EXPECT_LT(measured, 1.01 * expected) << what;
  }
};

/// There and back in each step; at the end a worker hands in once more, which nobody answers.
TEST_F(BytesOnTheWire, OfServersAreWhatTheirWorkersHandInAndGetBack) {
  plan::LevelPlan in_step;
  in_step.topology = "servers";
  auto with_farewell = [](const Measured& measured, int workers, double sent) {
    double steps = 0;
    for (int worker = 0; worker < workers; ++worker)
      steps += measured.steps[static_cast<std::size_t>(worker)];
    return sent * (1 + 0.5 * workers / steps);
  };
  for (const auto& level : {in_step, asynchronous(), meets("block", 1, "servers")}) {
    const auto beside = measure(level, 4);  // 2 (n - 1) / n m
    expect_near(beside.sent, with_farewell(beside, 4, 2.0 * 3 / 4 * beside.weights), level.rule);
    expect_near(beside.sent, with_farewell(beside, 4, beside.planned), level.rule);
    for (int servers : {1, 2}) {  // a worker m, a server n m / k, the mean of all
      const auto dedicated = measure(level, 3 + servers, servers);
      const double expected = 2.0 * 3 / (3 + servers) * dedicated.weights;
      expect_near(dedicated.sent, with_farewell(dedicated, 3, expected), level.rule);
      expect_near(dedicated.sent, with_farewell(dedicated, 3, dedicated.planned), level.rule);
    }
  }
}

TEST_F(BytesOnTheWire, OfGossipAreWhatItsGraphSays) {
  plan::LevelPlan level = meets("average", 1, "gossip");
  for (const auto& [graph, neighbours] : {std::pair{"ring", 2.0}, std::pair{"exponential", 1.0}}) {
    level.graph = graph;
    const auto measured = measure(level, 5);
    expect_near(measured.sent, neighbours * measured.weights, graph);
    expect_near(measured.sent, measured.planned, graph);
  }
}

TEST_F(BytesOnTheWire, OfSignificantEntriesAreFewerThanAll) {
  plan::LevelPlan level = meets("average", 1, "significant");
  level.options.set("significance", 0);
  const auto all = measure(level, 4);
  expect_near(all.sent, 3 * all.weights, "everything");
  expect_near(all.sent, all.planned, "everything");
  level.options.set("significance", 0.01);
  EXPECT_LT(measure(level, 4).sent, 0.5 * all.sent);
}

TEST_F(BytesOnTheWire, OfPairsAreThereAndBackForEachActiveStep) {
  const auto measured = measure(meets("average", 1, "pairs"), 4);
  double all = 0;
  for (double steps : measured.steps) all += steps;
  const double active = measured.steps[1] + measured.steps[3];
  expect_near(measured.sent, 2 * measured.weights * active / all, "pairs");
}

TEST_F(BytesOnTheWire, OfAdasumAreTheWeightsForEachDoubling) {
  plan::LevelPlan level;
  level.topology = "adasum";
  const auto measured = measure(level, 4);
  expect_near(measured.sent, 2 * measured.weights, "adasum");
  expect_near(measured.sent, measured.planned, "adasum");
}

}  // namespace
}  // namespace taxon::test
