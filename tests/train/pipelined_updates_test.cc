// Stages that update their weights while micro-batches are under way train as their papers' recurrences say.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "support/delayed_updates.h"
#include "support/errors.h"
#include "train/start/divided.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

using ::testing::HasSubstr;

struct Schedule {
  const char* name;
  std::vector<std::pair<std::string, std::string>> options;
  int micros_per_update;
  std::vector<int> delays;  // of the two stages
};

const Schedule kSchedules[] = {{"pipedream", {}, 1, {1, 0}},
                               {"pipedream", {{"vertical_sync", "true"}}, 1, {1, 1}},
                               {"pipedream_2bw", {}, 2, {1, 1}},
                               {"pipedream_2bw", {{"micros_per_update", "3"}}, 3, {1, 1}}};

class PipelinedUpdates : public Train {
 protected:
  PipelinedUpdates() {
    plan_ = toy_plan();
    plan_.batch.micro_batches = 6;
    plan_.length.steps = 10;
    plan_.optimiser.rule = "momentum";
    plan_.learning_rate = {.base = 0.05, .schedule = "constant"};
    plan_.mesh.pipeline = 2;
  }
  plan::Plan by(const Schedule& schedule) const {
    plan::Plan plan = plan_;
    plan.pipeline.schedule = schedule.name;
    for (const auto& [key, value] : schedule.options) plan.pipeline.options.set(key, value);
    return plan;
  }
  TrainingJob staged_job(int replicas, const plan::Plan& plan, data::MemoryStorage* storage) {
    TrainingJob result = job(replicas * plan.mesh.pipeline * plan.mesh.tensor, plan);
    result.make_model = maker();
    result.storage = storage;
    result.out = "run";
    return result;
  }
  std::function<std::unique_ptr<model::Model>(int)> maker() const {
    auto options = model_options(plan_);
    options.hidden = 6;  // which two members can share
    return [options](int) { return std::make_unique<model::Perceptron>(options); };
  }
  NamedValues expected(const Schedule& schedule, const plan::Plan& plan, int replicas) const {
    return DelayedUpdates{.make = [make = maker()] { return make(0); },
                          .train = datasets_.train.get(),
                          .plan = plan,
                          .replicas = replicas,
                          .micros_per_update = schedule.micros_per_update,
                          .stages = {{0, 1}, {1, 1}},
                          .delays = schedule.delays}
        .weights();
  }
  plan::Plan plan_;
};

TEST_F(PipelinedUpdates, AreTheRecurrencesOfTheirPapers) {
  for (const Schedule& schedule : kSchedules)
    for (const char* rule : {"sgd", "adamw"})
      for (const char* topology : {"all_reduce", "sharded"})
        for (int replicas : {1, 2, 3}) {  // the last batch of an epoch has 4 samples: some updates have none
          SCOPED_TRACE(fmt::format("{} {} {} {} {}", schedule.name, fmt::join(schedule.delays, " "), rule,
                                   topology, replicas));
          plan::Plan plan = by(schedule);
          plan.optimiser.rule = rule;
          if (plan.optimiser.rule == "adamw") plan.learning_rate.base = 0.01;
          plan.exchange.levels[0].topology = topology;
          data::MemoryStorage storage;
          const auto result = run_training(staged_job(replicas, plan, &storage));
          EXPECT_LT(distance_between(expected(schedule, plan, replicas), exported(storage)), 1e-12);
          EXPECT_LT(result.recorders[0].steps.back().loss, result.recorders[0].steps.front().loss);
        }
}

/// The recurrences differ by far more than rounding.
TEST_F(PipelinedUpdates, AreToldApart) {
  std::vector<NamedValues> all;
  for (const Schedule& schedule : kSchedules) all.push_back(expected(schedule, by(schedule), 1));
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) EXPECT_GT(distance_between(all[a], all[b]), 1e-6) << a << " " << b;
}

TEST_F(PipelinedUpdates, OfMembersThatShareLayersAreTheSame) {
  for (const Schedule& schedule : kSchedules) {
    SCOPED_TRACE(schedule.name);
    plan::Plan plan = by(schedule);
    plan.mesh.tensor = 2;
    data::MemoryStorage storage;
    run_training(staged_job(2, plan, &storage));
    EXPECT_LT(distance_between(expected(schedule, plan, 2), exported(storage)), 1e-12);
  }
}

TEST_F(PipelinedUpdates, OfActivationsComputedAgainHaveTheSameBits) {
  for (const Schedule& schedule : kSchedules) {
    plan::Plan plan = by(schedule);
    data::MemoryStorage kept, again;
    run_training(staged_job(2, plan, &kept));
    plan.pipeline.activations = plan::Activations::Recomputed;
    run_training(staged_job(2, plan, &again));
    EXPECT_EQ(exported(kept), exported(again)) << schedule.name;
  }
}

/// In narrow numbers versions are copies too, of which the last stage has one.
TEST_F(PipelinedUpdates, TrainInBfloat16) {
  for (const Schedule& schedule : kSchedules) {
    plan::Plan plan = by(schedule);
    plan.precision = {DType::BFloat16, DType::Float32};
    data::MemoryStorage storage;
    const auto result = run_training(staged_job(2, plan, &storage));
    EXPECT_LT(result.recorders[0].steps.back().loss, 0.9 * result.recorders[0].steps.front().loss)
        << schedule.name;
  }
}

TEST_F(PipelinedUpdates, GoOnWhereTheyStopped) {
  for (const Schedule& schedule : kSchedules) {
    SCOPED_TRACE(schedule.name);
    data::MemoryStorage whole, storage;
    run_training(staged_job(2, by(schedule), &whole));
    TrainingJob first = staged_job(2, by(schedule), &storage);
    first.stop_after = 7;
    EXPECT_EQ(run_training(first).outcomes[0].end, train::Outcome::End::Interrupted);
    TrainingJob rest = staged_job(2, by(schedule), &storage);
    rest.start = train::TrainOptions::Start::Resume;
    run_training(rest);
    EXPECT_EQ(exported(whole), exported(storage));
  }
}

/// Between two steps there are no versions: whatever the mesh, a checkpoint is whole. But what is trained
/// changes with the schedule, and wants to be said.
TEST_F(PipelinedUpdates, GoOnOtherwiseOnlyOnPurpose) {
  data::MemoryStorage storage;
  TrainingJob first = staged_job(1, by(kSchedules[0]), &storage);
  first.stop_after = 7;
  run_training(first);
  plan::Plan other = plan_;
  other.pipeline.schedule = "1f1b";
  TrainingJob rest = staged_job(1, other, &storage);
  rest.start = train::TrainOptions::Start::Resume;
  try {
    run_training(rest);
    FAIL() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_THAT(error.what(), HasSubstr("pipeline.schedule"));
  }
  rest.assignments = {"pipeline.schedule=1f1b"};
  EXPECT_EQ(run_training(rest).outcomes[0].end, train::Outcome::End::Complete);
}

/// Tests during a run see the newest weights, as those at its end do.
TEST_F(PipelinedUpdates, AreTestedWithTheNewestWeights) {
  plan_.length.steps = 9;  // an epoch
  data::MemoryStorage storage;
  const auto result = run_training(staged_job(1, by(kSchedules[0]), &storage));
  model::Bound bound(maker()(0), DType::Float64, DType::Float64);
  const NamedValues trained = exported(storage);
  for (const tensor::Slot& slot : bound.binding().layout->slots())
    std::copy(trained.at(slot.name).begin(), trained.at(slot.name).end(),
              bound.weights.values<double>(slot.range).begin());
  std::vector<std::int64_t> all(static_cast<std::size_t>(datasets_.test->size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const data::Samples samples = data::read_samples(*datasets_.test, all);
  const double loss = bound->evaluate(samples.inputs(), samples.labels).loss_sum;
  ASSERT_FALSE(result.recorders[0].evaluations.empty());
  for (const train::Evaluation& seen : result.recorders[0].evaluations)
    EXPECT_NEAR(seen.loss, loss / static_cast<double>(all.size()), 1e-12);
}

}  // namespace
}  // namespace taxon::test
