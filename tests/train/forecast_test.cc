// What is said beforehand of ranks that hold parts of a model is what they hold and send.
#include "train/start/forecast.h"

#include "exchange/levels/levels.h"
#include "plan/mesh.h"
#include "train/modes.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

class Forecasts : public Train {
 protected:
  /// Large enough for what ranks tell each other beside it to count little.
  TrainingJob wide_job(int ranks, plan::Plan plan) {
    plan.length.steps = 4;
    plan.evaluation.every_epochs = 0;
    plan.exchange.bucket_bytes = 8 << 10;
    TrainingJob wide = job(ranks, plan);
    wide.make_model = [options = model_options(plan)](int) {
      auto own = options;
      own.hidden = 600;
      own.idle = 0;
      return std::make_unique<model::Perceptron>(own);
    };
    return wide;
  }
  static train::Forecast forecast_of(const TrainingJob& job, int rank) {
    task::PollLoop loop;
    net::LoopbackWorld world(loop, job.ranks);
    tensor::CpuDevice device(loop);
    comm::FlightRecorder recorder;
    comm::Runtime runtime{world.transport(Rank(rank)), device, recorder};
    const auto model = job.make_model(rank);
    return train::forecast(runtime, *model, {.plan = job.plan}, {0, true});
  }
  /// The memory of every rank to the byte, and what they send together.
  void expect_foreseen(int ranks, const plan::Plan& plan) {
    const TrainingJob job = wide_job(ranks, plan);
    const TrainingResult result = run_training(job);
    TrainingJob poor = job;  // next to no memory
    for (int rank = 0; rank < ranks; ++rank) poor.memory.push_back({"m" + std::to_string(rank), 1});
    const std::string told = want_of_memory(poor);
    double sent = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const train::Forecast foreseen = forecast_of(job, rank);
      const train::ArenaBytes& made = result.recorders[static_cast<std::size_t>(rank)].info.arenas;
      EXPECT_EQ(foreseen.memory.arenas.weights, made.weights) << rank;
      EXPECT_EQ(foreseen.memory.arenas.gradients, made.gradients) << rank;
      EXPECT_EQ(foreseen.memory.arenas.optimiser, made.optimiser) << rank;
      EXPECT_NE(told.find(train::describe(foreseen.memory)), std::string::npos) << rank << ": " << told;
      sent += foreseen.sent / ranks;
    }
    constexpr double kToldBeside = 64;  // of losses and counts
    EXPECT_NEAR(result.outcomes[0].bytes_sent_per_step, sent, 0.01 * sent + kToldBeside);
  }
};

TEST_F(Forecasts, OfPipelines) {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "pipedream"})
    for (int ranks : {2, 4}) {
      SCOPED_TRACE(testing::Message() << schedule << " " << ranks);
      plan::Plan plan = toy_plan();
      plan.optimiser.momentum = 0.9;
      plan.mesh.pipeline = 2;
      plan.pipeline.schedule = schedule;
      plan.batch.micro_batches = 2;
      expect_foreseen(ranks, plan);
    }
}

TEST_F(Forecasts, OfActivationsComputedAgain) {
  plan::Plan plan = toy_plan(DType::Float32);
  plan.mesh.pipeline = 2;
  plan.pipeline.schedule = "gpipe";
  plan.pipeline.activations = plan::Activations::Recomputed;
  plan.batch.micro_batches = 3;
  expect_foreseen(2, plan);
}

TEST_F(Forecasts, OfLayersThatMembersShare) {
  for (int pipeline : {1, 2})
    for (int replicas : {1, 2}) {
      SCOPED_TRACE(testing::Message() << pipeline << " stages, " << replicas << " replicas");
      plan::Plan plan = toy_plan();
      plan.mesh.pipeline = pipeline;
      plan.mesh.tensor = 2;
      plan.pipeline.schedule = pipeline > 1 ? "1f1b" : "data_parallel";
      plan.batch.micro_batches = pipeline;
      expect_foreseen(2 * pipeline * replicas, plan);
    }
}

TEST_F(Forecasts, OfParametersThatRanksKeepPartsOf) {
  for (int pipeline : {1, 2})
    for (const plan::GradientMemory gradients : {plan::GradientMemory::Whole, plan::GradientMemory::Ring}) {
      plan::Plan plan = toy_plan(DType::Float32);
      plan.optimiser.rule = "adamw";
      plan.exchange.levels = {level("data", "sharded", "ring")};
      plan.exchange.levels.front().options = {{"parameters", "sharded"}, {"prefetch", 1}};
      if (gradients == plan::GradientMemory::Ring && pipeline == 1) {
        plan.exchange.gradients = gradients;
        plan.exchange.order = plan::BucketOrder::Backward;
      }
      plan.mesh.pipeline = pipeline;
      if (pipeline > 1) plan.pipeline.schedule = "gpipe";
      plan.batch.micro_batches = 2;
      SCOPED_TRACE(testing::Message() << pipeline << " stages");
      expect_foreseen(2 * pipeline, plan);
      // Each is held by every segment of the rank, and is one.
      EXPECT_EQ(forecast_of(wide_job(2 * pipeline, plan), 0).memory.samples, plan.batch.global / 2);
    }
}

}  // namespace
}  // namespace taxon::test
