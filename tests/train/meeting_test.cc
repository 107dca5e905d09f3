// Replicas that train apart and meet: what the published systems promise of each other.
#include <gtest/gtest.h>

#include "data/memory_storage.h"
#include "train/modes.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

class TrainMeeting : public Train {
 protected:
  plan::Plan apart(plan::LevelPlan level, const std::string& rule = "sgd") {
    plan::Plan plan = toy_plan();
    plan.optimiser.rule = rule;
    plan.exchange.slice_bytes = 64;
    plan.exchange.levels = {std::move(level)};
    plan.batch.global = 20;  // divides the training set: every replica has as many samples
    plan.report.hash_steps = 1;
    return plan;
  }
  std::vector<double> parameters(int ranks, plan::Plan plan) {
    return run_training(job(ranks, std::move(plan))).parameters;
  }
};

TEST_F(TrainMeeting, DiLoCoEveryStepWithPlainSgdIsSynchronousSgd) {
  plan::LevelPlan level = meets("outer_nesterov", 1);
  const auto synchronous = parameters(4, apart(plan::LevelPlan{}));
  for (const char* topology : {"all_reduce", "sharded"}) {
    level.topology = topology;
    EXPECT_LT(relative_distance(synchronous, parameters(4, apart(level))), 1e-12) << topology;
  }
}

TEST_F(TrainMeeting, AveragingEveryStepIsSynchronousForEveryLinearRule) {
  for (const char* rule : {"sgd", "momentum", "nesterov"}) {
    const auto synchronous = parameters(4, apart(plan::LevelPlan{}, rule));
    EXPECT_LT(relative_distance(synchronous, parameters(4, apart(meets("average", 1), rule))), 1e-12) << rule;
    plan::LevelPlan averaged = meets("average", 1);
    averaged.inner_state = plan::InnerState::Average;
    EXPECT_LT(relative_distance(synchronous, parameters(4, apart(averaged, rule))), 1e-12) << rule;
  }
}

TEST_F(TrainMeeting, BlockMomentumZeroIsAveraging) {
  const auto averaged = parameters(4, apart(meets("average", 5), "momentum"));
  const auto synchronous = parameters(4, apart(plan::LevelPlan{}, "momentum"));
  EXPECT_GT(relative_distance(averaged, synchronous), 1e-4);  // five steps apart is another trajectory
  for (const char* rule : {"block", "block_nesterov", "outer_momentum", "outer_nesterov", "slowmo"})
    EXPECT_LT(relative_distance(averaged, parameters(4, apart(meets(rule, 5), "momentum"))), 1e-12) << rule;
}

TEST_F(TrainMeeting, MomentumOverRoundsChangesTheTrajectory) {
  const auto averaged = parameters(4, apart(meets("average", 5)));
  for (const char* rule : {"block", "block_nesterov", "outer_momentum", "outer_nesterov", "slowmo"}) {
    plan::LevelPlan level = meets(rule, 5);
    level.momentum = 0.5;
    EXPECT_GT(relative_distance(averaged, parameters(4, apart(level))), 1e-4) << rule;
  }
}

/// Its first step from a state of zero is as long as the rate in every direction, whenever it comes.
TEST_F(TrainMeeting, AdamwThatIsResetAfterEveryStepFollowsTheSign) {
  auto by = [this](plan::LevelPlan level, const char* rule) {
    plan::Plan plan = apart(std::move(level), rule);
    plan.learning_rate.base = 0.001;  // gradients keep their signs
    plan.length.steps = 10;
    return parameters(1, plan);
  };
  plan::LevelPlan level = meets("average", 1);
  level.inner_state = plan::InnerState::Reset;
  EXPECT_LT(relative_distance(by({}, "sign"), by(level, "adamw")), 1e-6);
}

TEST_F(TrainMeeting, AdamwThatIsResetContinuesBitForBit) {
  plan::LevelPlan level = meets("average", 5);
  level.inner_state = plan::InnerState::Reset;
  const plan::Plan plan = apart(level, "adamw");
  const auto whole = run_training(job(4, plan));
  data::MemoryStorage storage;
  run_training(stopping(job(4, plan), 13, &storage));
  EXPECT_EQ(run_training(going_on(job(4, plan), &storage)).outcomes[0].parameter_hash,
            whole.outcomes[0].parameter_hash);
}

/// Gaia's filter without a threshold.
TEST_F(TrainMeeting, WhereAllIsSignificantReplicasAreAveraged) {
  plan::LevelPlan level = meets("average", 3, "significant");
  level.options.set("significance", 0);
  const auto averaged = parameters(4, apart(meets("average", 3), "adamw"));
  EXPECT_LT(relative_distance(averaged, parameters(4, apart(level, "adamw"))), 1e-12);
  level.options.set("significance", 1);
  EXPECT_GT(relative_distance(averaged, parameters(4, apart(level, "adamw"))), 1e-6);
}

TEST_F(TrainMeeting, WarmUpMeetsAfterEveryStep) {
  plan::LevelPlan level = meets("average", 10);
  level.warmup_steps = 50;
  EXPECT_LT(relative_distance(parameters(4, apart(level)), parameters(4, apart(plan::LevelPlan{}))), 1e-12);
}

TEST_F(TrainMeeting, ShardedReplicasInANodeMeetAcrossNodes) {
  plan::Plan plan = apart(plan::LevelPlan{});
  const auto synchronous = parameters(4, plan);
  for (const char* inner : {"sharded", "all_reduce"})
    for (const char* outer : {"sharded", "all_reduce"}) {
      plan::LevelPlan node, across = meets("outer_nesterov", 1, outer);
      node.group = plan::LevelGroup::Node;
      node.topology = inner;
      across.group = plan::LevelGroup::Across;
      plan.exchange.levels = {node, across};
      plan.mesh.node = 2;
      EXPECT_LT(relative_distance(synchronous, parameters(4, plan)), 1e-12) << inner << " " << outer;
    }
}

class TrainWay : public TrainMeeting, public ::testing::WithParamInterface<Mode> {
 protected:
  plan::Plan way(DType type = DType::Float64) {
    plan::Plan plan = apart(plan::LevelPlan{}, "momentum");
    plan.precision = {type, type};
    GetParam().apply(plan);
    return plan;
  }
};

TEST_P(TrainWay, LearnsAndEndsWithOneModel) {
  const auto result = run_training(job(4, way()));
  const auto& losses = result.recorders[0].evaluations;
  EXPECT_LT(result.outcomes[0].test.loss, losses.front().loss);
  for (const auto& outcome : result.outcomes) {
    EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
    EXPECT_EQ(outcome.test.loss, result.outcomes[0].test.loss);
  }
}

TEST_P(TrainWay, TwoRunsAreBitIdenticalOnAnyMemory) {
  const plan::Plan plan = way();
  const auto once = run_training(job(4, plan));
  TrainingJob again = job(4, plan);
  EXPECT_EQ(run_training(again).outcomes[0].parameter_hash, once.outcomes[0].parameter_hash);
  again.plan.exchange.overlap = plan::Overlap::Forward;
  EXPECT_EQ(run_training(again).outcomes[0].parameter_hash, once.outcomes[0].parameter_hash);
}

TEST_P(TrainWay, AnInterruptedRunContinuesBitForBit) {
  for (DType compute : {DType::Float32, DType::BFloat16}) {
    plan::Plan plan = way();
    plan.precision = {compute, DType::Float32};
    const auto whole = run_training(job(4, plan));
    for (int stop : {13, 15, 16, 18}) {
      data::MemoryStorage storage;
      TrainingJob first = stopping(job(4, plan), stop, &storage);
      const auto stopped = run_training(first);
      EXPECT_EQ(stopped.outcomes[3].end, train::Outcome::End::Interrupted);
      TrainingJob rest = going_on(job(4, plan), &storage);
      const auto resumed = run_training(rest);
      EXPECT_EQ(resumed.outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash)
          << to_string(compute) << " " << stop;
    }
  }
}

TEST_P(TrainWay, AnotherWorldGoesOnFromWhatStandsForTheModel) {
  const plan::Plan plan = way();
  data::MemoryStorage storage;
  TrainingJob first = stopping(job(4, plan), 20, &storage);
  run_training(first);
  TrainingJob rest = going_on(job(2, plan), &storage);
  const auto result = run_training(rest);
  EXPECT_EQ(result.outcomes[0].end, train::Outcome::End::Complete);
  EXPECT_EQ(result.outcomes[0].parameter_hash, result.outcomes[1].parameter_hash);
}

INSTANTIATE_TEST_SUITE_P(Ways, TrainWay, ::testing::ValuesIn(meetings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace taxon::test
