// Every way of keeping replicas equal is the same mathematics.
#include "train/modes.h"

#include <gtest/gtest.h>

#include <numeric>

#include "data/memory_storage.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

class TrainMode : public Train, public ::testing::WithParamInterface<Mode> {
 protected:
  plan::Plan mode_plan(DType type = DType::Float64) {
    plan::Plan plan = toy_plan(type);
    plan.exchange.slice_bytes = 64;
    plan.optimiser.rule = "adamw";
    plan.optimiser.weight_decay = 0.01;
    plan.learning_rate.base = 0.02;
    GetParam().apply(plan);
    return plan;
  }
  /// The same with one worker, which has nobody to share with.
  plan::Plan alone(plan::Plan plan) {
    plan.exchange.levels = {level("data", "all_reduce")};
    plan.exchange.gradients = plan::GradientMemory::Whole;
    plan.mesh.node = 0;
    return plan;
  }
};

TEST_P(TrainMode, TrainsAsOneWorkerDoes) {
  for (double clip : {0.0, 0.05}) {
    plan::Plan plan = mode_plan();
    plan.optimiser.clip_norm = clip;
    const auto expected = run_training(job(1, alone(plan)));
    for (bool share_memory : {true, false})
      for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward})
        for (int ranks : {2, 4, 6}) {
          SCOPED_TRACE(testing::Message()
                       << share_memory << " " << plan::to_string(overlap) << " " << ranks << " " << clip);
          plan.exchange.overlap = overlap;
          TrainingJob several = job(ranks, plan);
          several.share_memory = share_memory;
          const auto result = run_training(several);
          EXPECT_LT(relative_distance(expected.parameters, result.parameters), 1e-9);
          for (const auto& outcome : result.outcomes)
            EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
          if (GetParam().delayed) continue;  // a report does not wait for its norm
          for (std::size_t step = 0; step < 50; ++step)
            EXPECT_NEAR(result.recorders[0].steps[step].gradient_norm,
                        expected.recorders[0].steps[step].gradient_norm, 1e-9)
                << step;
        }
  }
}

TEST_P(TrainMode, TwoRunsAreBitIdentical) {
  const plan::Plan plan = mode_plan(DType::Float32);
  EXPECT_EQ(run_training(job(4, plan)).outcomes[0].parameter_hash,
            run_training(job(4, plan)).outcomes[0].parameter_hash);
}

TEST_P(TrainMode, AnInterruptedRunContinuesBitForBit) {
  for (DType compute : {DType::Float32, DType::BFloat16}) {
    plan::Plan plan = mode_plan(DType::Float32);
    plan.precision.compute = compute;
    const auto whole = run_training(job(4, plan));
    data::MemoryStorage storage;
    TrainingJob first = stopping(job(4, plan), 16, &storage);
    const auto stopped = run_training(first);
    EXPECT_EQ(stopped.outcomes[3].end, train::Outcome::End::Interrupted);
    TrainingJob rest = going_on(job(4, plan), &storage);
    const auto resumed = run_training(rest);
    EXPECT_EQ(resumed.recorders[0].info.start_step, stopped.outcomes[0].steps);
    EXPECT_EQ(resumed.outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash) << to_string(compute);
    EXPECT_EQ(resumed.outcomes[0].test.loss, whole.outcomes[0].test.loss);
  }
}

TEST_P(TrainMode, CheckpointsOnTheWayChangeNothingAndAnotherWorldGoesOn) {
  plan::Plan plan = mode_plan();
  const auto whole = run_training(job(4, plan));
  data::MemoryStorage storage;
  TrainingJob first = job(4, plan);
  first.plan.checkpoint.every_steps = 5;
  first.storage = &storage;
  first.out = "run";
  EXPECT_EQ(run_training(first).outcomes[0].parameter_hash, whole.outcomes[0].parameter_hash);
  data::MemoryStorage other;
  run_training(stopping(job(4, first.plan), 20, &other));
  EXPECT_LT(relative_distance(run_training(going_on(job(2, plan), &other)).parameters, whole.parameters),
            1e-9);
}

INSTANTIATE_TEST_SUITE_P(Modes, TrainMode, ::testing::ValuesIn(modes()),
                         [](const auto& info) { return info.param.name; });

class ExchangeModes : public Train {};

/// A folder of one as one of the other.
void copy_folder(const data::Storage& from, data::Storage& to, const std::string& folder) {
  for (const std::string& name : from.list(folder)) {
    const std::string path = folder + "/" + name;
    if (!from.list(path).empty()) {
      copy_folder(from, to, path);
      continue;
    }
    const std::vector<std::byte> bytes = from.read(path);
    to.write_atomic(path, {bytes.data(), bytes.size()});
  }
}

TEST_F(ExchangeModes, ACheckpointOfOneModeContinuesInAnother) {
  plan::Plan plan = toy_plan();
  const auto whole = run_training(job(4, plan));
  for (const Mode& before : modes()) {
    if (before.delayed) continue;
    data::MemoryStorage stopped;
    TrainingJob first = stopping(job(4, plan), 20, &stopped);
    before.apply(first.plan);
    run_training(first);
    for (const Mode& after : modes()) {
      if (after.delayed) continue;
      SCOPED_TRACE(before.name + " to " + after.name);
      data::MemoryStorage storage;
      copy_folder(stopped, storage, "run");
      TrainingJob rest = going_on(job(4, plan), &storage);
      after.apply(rest.plan);
      EXPECT_LT(relative_distance(run_training(rest).parameters, whole.parameters), 1e-9);
    }
  }
}

TEST_F(ExchangeModes, ShardedStateIsANthOfTheMemory) {
  plan::Plan plan = toy_plan(DType::Float32);
  plan.optimiser.rule = "adamw";
  TrainingJob wide = job(4, plan);
  wide.make_model = [](int rank) {
    return std::make_unique<model::Perceptron>(model::PerceptronOptions{
        .shape = {{kInputs}, kClasses}, .hidden = 4000, .seed = static_cast<std::uint64_t>(rank)});
  };
  wide.plan.length.steps = 2;
  const auto replicated = run_training(wide).recorders[1].info.arenas;
  wide.plan.exchange.levels[0].topology = "sharded";
  const auto sharded = run_training(wide).recorders[1].info.arenas;
  EXPECT_EQ(sharded.weights, replicated.weights);
  EXPECT_EQ(sharded.gradients, replicated.gradients);
  EXPECT_NEAR(static_cast<double>(sharded.optimiser), static_cast<double>(replicated.optimiser) / 4,
              0.01 * static_cast<double>(replicated.optimiser));
}

/// Delayed gradients: w(t + 1) = w(t) - rate * g(w(t - 1)), where the first step's gradient is of w(0) too.
TEST_F(ExchangeModes, ADelayedUpdateUsesTheGradientOfTheStepBefore) {
  plan::Plan plan = toy_plan();
  plan.batch.global = 100;  // all samples: the order in an epoch does not matter
  plan.length.steps = 6;
  plan.optimiser.rule = "sgd";
  plan.learning_rate.schedule = "constant";
  plan.exchange.delay = 1;
  const auto result = run_training(job(2, plan));

  model::Perceptron model(model_options(plan));
  tensor::ArenaLayout layout(DType::Float64);
  model::Binding binding{.layout = &layout, .parameters = {0, 1, 2, 3, 4}};
  for (int p : binding.parameters)
    layout.add(std::to_string(p), model.spec().parameters[static_cast<std::size_t>(p)].shape);
  tensor::Arena weights(DType::Float64, layout.size()), gradients(DType::Float64, layout.size());
  const Range all{0, layout.size()};
  binding.buckets = {{all, all}};
  binding.weights = &weights;
  binding.gradients = {&gradients};
  std::vector<std::int64_t> indices(100), labels(100);
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<float> inputs(100 * kInputs);
  datasets_.train->read(indices, inputs, labels);
  model.bind(binding);
  struct None final : tensor::Milestones {
    void reached(int) override {}
  } none;
  std::vector<double> late;  // the gradient whose update is due
  for (int step = 0; step < 6; ++step) {
    model.forward_backward({inputs, labels, 100, 1}, 0, none);
    auto w = weights.values<double>(all);
    if (!late.empty())
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.2 * late[i];
    auto g = gradients.values<double>(all);
    late.assign(g.begin(), g.end());
  }
  auto w = weights.values<double>(all);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.2 * late[i];  // the end of training waits for it
  model.unbind();
  EXPECT_LT(relative_distance(model.parameters(), result.parameters), 1e-10);
}

}  // namespace
}  // namespace taxon::test
