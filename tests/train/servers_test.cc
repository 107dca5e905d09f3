// Parameter servers: the same mathematics where workers keep step, and what is promised where they don't.
#include <gtest/gtest.h>

#include <numeric>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "data/memory_storage.h"
#include "train/modes.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

class TrainServers : public Train {
 protected:
  plan::Plan plan_of(plan::LevelPlan level, int servers, const std::string& rule = "adamw") {
    plan::Plan plan = toy_plan();
    plan.optimiser.rule = rule;
    plan.optimiser.weight_decay = 0.01;
    plan.learning_rate.base = rule == "adamw" ? 0.02 : 0.1;
    plan.exchange.slice_bytes = 64;
    plan.exchange.levels = {std::move(level)};
    plan.mesh.servers = servers;
    return plan;
  }
};

TEST_F(TrainServers, WhereWorkersKeepStepTheyTrainAsOneWorkerDoes) {
  const auto expected = run_training(job(1, plan_of({}, 0)));
  for (int dedicated : {0, 1, 2})
    for (int workers : {1, 2, 4})
      for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward}) {
        if (dedicated + workers > 5) continue;
        SCOPED_TRACE(testing::Message() << dedicated << " " << workers << " " << plan::to_string(overlap));
        plan::Plan plan = plan_of(served(), dedicated);
        plan.exchange.overlap = overlap;
        const auto result = run_training(job(workers + dedicated, plan));
        EXPECT_LT(relative_distance(expected.parameters, result.parameters), 1e-9);
        for (const auto& outcome : result.outcomes) {
          EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
          EXPECT_EQ(outcome.staleness, (std::vector<double>{outcome.staleness[0]}));
        }
        EXPECT_EQ(result.recorders[0].steps.size(), 50u);
        EXPECT_NEAR(result.recorders[0].steps[30].loss, expected.recorders[0].steps[30].loss, 1e-9);
      }
}

TEST_F(TrainServers, TwoRunsAreBitIdenticalAndAnInterruptedOneContinues) {
  for (int dedicated : {0, 2}) {
    plan::Plan plan = plan_of(served(), dedicated, "momentum");
    plan.precision = {DType::Float32, DType::Float32};
    const auto whole = run_training(job(4, plan));
    EXPECT_EQ(run_training(job(4, plan)).outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash);
    data::MemoryStorage storage;
    TrainingJob first = stopping(job(4, plan), 16, &storage);
    EXPECT_EQ(run_training(first).outcomes[3].end, train::Outcome::End::Interrupted);
    TrainingJob rest = going_on(job(4, plan), &storage);
    EXPECT_EQ(run_training(rest).outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash) << dedicated;
  }
}

/// The perceptron's buffer counts samples: a server's of none.
TEST_F(TrainServers, BuffersAreTheMeanOfTheWorkers) {
  data::MemoryStorage storage;
  TrainingJob job = this->job(6, plan_of(served(), 2));
  job.storage = &storage;
  job.out = "run";
  run_training(job);
  for (const auto& tensor : checkpoint::read_safetensors(storage, "run/model.safetensors"))
    if (tensor.name == "seen") {
      const auto seen = as_span<float>(ConstView(tensor.bytes.data(), tensor.bytes.size()));
      EXPECT_EQ(seen[0], 560 / 4);  // five epochs of a hundred, and five batches of twelve
      return;
    }
  FAIL() << "no buffer in the file";
}

/// Of what others had at servers nothing is this rank's: the weights are.
TEST_F(TrainServers, AnInterruptedRunGoesOnWithMoreServersAndFewer) {
  for (auto [before, after] : {std::pair{1, 2}, {2, 1}, {0, 1}}) {
    SCOPED_TRACE(testing::Message() << before << " servers, then " << after);
    data::MemoryStorage storage;
    TrainingJob first = stopping(job(4, plan_of(served(), before, "sgd")), 30, &storage);
    const double reached = run_training(first).recorders[0].steps.back().loss;
    TrainingJob rest = going_on(job(4, plan_of(served(), after, "sgd")), &storage);
    const auto result = run_training(rest);
    EXPECT_LT(result.recorders[0].steps.front().loss, 1.5 * reached);
    EXPECT_EQ(result.outcomes[0].end, train::Outcome::End::Complete);
  }
}

/// What Adam corrects its means by: of every contribution here, not of a worker's steps.
TEST_F(TrainServers, ServersCountTheirUpdatesAcrossAnInterruption) {
  const plan::Plan plan = plan_of(asynchronous(), 1);
  data::MemoryStorage storage;
  double applied = 0;
  for (std::int64_t stop : {10, 25}) {
    TrainingJob job = stopping(this->job(5, plan), stop, &storage);
    if (applied > 0) job = going_on(std::move(job), &storage);
    const auto outcome = run_training(job).outcomes[0];
    applied += std::accumulate(outcome.staleness.begin(), outcome.staleness.end(), 0.0);
    const auto saved = checkpoint::load(storage, *checkpoint::find_latest(storage, "run"));
    const auto& kept = saved.per_rank.back();  // the server's
    const auto updates = std::find_if(kept.begin(), kept.end(),
                                      [](const auto& tensor) { return tensor.name == "server updates"; });
    ASSERT_NE(updates, kept.end());
    EXPECT_EQ(as_span<double>(ConstView(updates->bytes.data(), updates->bytes.size()))[0], applied);
    EXPECT_GT(applied, 2 * saved.steps);
  }
}

struct Discipline {
  std::string name;
  std::int64_t staleness = 0;
  int quorum = 0, apply = 0;
  friend std::ostream& operator<<(std::ostream& out, const Discipline& d) { return out << d.name; }
};

class TrainFreely : public TrainServers, public ::testing::WithParamInterface<Discipline> {
 protected:
  plan::LevelPlan level() { return served(GetParam().staleness, GetParam().quorum, GetParam().apply); }
};

TEST_P(TrainFreely, LearnsAndEndsWithOneModel) {
  for (int dedicated : {0, 1}) {
    plan::Plan plan = plan_of(level(), dedicated, "sgd");
    const auto result = run_training(job(4, plan));
    EXPECT_LT(result.outcomes[0].test.loss, 0.9 * result.recorders[0].evaluations.front().loss);
    for (const auto& outcome : result.outcomes) {
      EXPECT_EQ(outcome.end, train::Outcome::End::Complete);
      EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
      EXPECT_EQ(outcome.test.loss, result.outcomes[0].test.loss);
    }
    const auto& counts = result.outcomes[0].staleness;
    EXPECT_GT(std::accumulate(counts.begin(), counts.end(), 0.0), 0);
    EXPECT_EQ(result.recorders[0].evaluations.size(), result.recorders[3].evaluations.size());
    EXPECT_GE(result.recorders[0].evaluations.size(), 5u);  // of six epochs
  }
}

TEST_P(TrainFreely, StopsWhenAsked) { expect_that_an_interrupted_run_goes_on(plan_of(level(), 1, "sgd")); }

INSTANTIATE_TEST_SUITE_P(Disciplines, TrainFreely,
                         ::testing::Values(Discipline{"ssp", 2, 0, 1}, Discipline{"asynchronous", -1, 0, 1},
                                           Discipline{"backup", 0, 2, 2}, Discipline{"softsync", -1, 0, 2}),
                         [](const auto& info) { return info.param.name; });

TEST_F(TrainServers, ElasticReplicasPullAtACentreOfServers) {
  plan::LevelPlan level = served(-1, 0, 1);
  level.rule = "elastic";
  level.rate = 0.9;
  level.period = 3;
  for (int dedicated : {0, 1}) {
    const auto result = run_training(job(4, plan_of(level, dedicated, "momentum")));
    EXPECT_LT(result.outcomes[0].test.loss, result.recorders[0].evaluations.front().loss);
    for (const auto& outcome : result.outcomes)
      EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
  }
}

/// A scheduler may tell one host only, and a dedicated server's process takes no steps in whose reports it
/// could.
TEST_F(TrainServers, AServerThatIsToldToStopEndsTheRunInOrder) {
  for (const plan::LevelPlan& level : {served(), served(2), asynchronous()}) {
    TrainingJob job = this->job(4, plan_of(level, 1, "sgd"));
    job.stopped = 3;
    for (const auto& outcome : run_training(job).outcomes) {
      EXPECT_EQ(outcome.end, train::Outcome::End::Interrupted);
      EXPECT_LT(outcome.steps, job.plan.length.steps);
    }
  }
}

TEST_F(TrainServers, ReplicasThatMeetAtServersDoAsThoseThatAllReduce) {
  for (const char* rule : {"block", "outer_nesterov", "elastic"}) {
    plan::LevelPlan level = meets(rule, 5);
    level.momentum = std::string(rule) == "elastic" ? 0 : 0.5;
    level.rate = 0.8;
    const auto expected = run_training(job(4, plan_of(level, 0, "momentum")));
    level.topology = "servers";
    for (int dedicated : {0, 2})
      EXPECT_LT(relative_distance(
                    expected.parameters,
                    run_training(job(4 + dedicated, plan_of(level, dedicated, "momentum"))).parameters),
                1e-9)
          << rule << " " << dedicated;
  }
}

}  // namespace
}  // namespace taxon::test
