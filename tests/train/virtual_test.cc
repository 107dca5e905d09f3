// Training in the virtual world: the same training code over modelled links.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "train/modes.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

class VirtualTrain : public Train {
 protected:
  /// What replaces time and chance may not change a bit of the result.
  void expect_loopbacks_bits(const TrainingJob& job, const plan::ClusterModel& cluster) {
    const auto expected = run_training(job);
    auto check = [&](const TrainingResult& result, const std::string& how) {
      EXPECT_EQ(result.outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash) << how;
      EXPECT_EQ(result.parameters, expected.parameters) << how;
      EXPECT_EQ(result.outcomes[0].test.loss, expected.outcomes[0].test.loss) << how;
      EXPECT_EQ(result.outcomes[0].bytes_sent_per_step, expected.outcomes[0].bytes_sent_per_step) << how;
    };
    check(run_virtual_training(job, cluster), "in order");
    for (std::uint64_t seed : {1, 2, 3})
      check(run_virtual_training(job, delayed(cluster), seed), "delays " + std::to_string(seed));
  }
};

TEST_F(VirtualTrain, BetweenHostsGivesLoopbacksBits) {
  for (int ranks : {2, 3, 5, 16})
    for (const char* collective : {"ring", "tree", "halving_doubling"})
      for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward}) {
        auto plan = toy_plan(DType::Float32);
        plan.length.steps = 12;
        plan.batch.global = 20;
        plan.exchange.levels[0].collective = collective;
        plan.exchange.overlap = overlap;
        plan.exchange.slice_bytes = 64;
        plan.exchange.in_flight = 2;
        TrainingJob between = job(ranks, plan);
        between.share_memory = false;
        SCOPED_TRACE(fmt::format("{} {} {}", collective, overlap, ranks));
        expect_loopbacks_bits(between, separate_hosts(ranks));
      }
}

TEST_F(VirtualTrain, InsideAHostGivesLoopbacksBits) {
  for (int ranks : {1, 2, 4, 7})
    for (const auto order : {plan::BucketOrder::Priority, plan::BucketOrder::Backward}) {
      auto plan = toy_plan(DType::Float64);
      plan.length.steps = 12;
      plan.exchange.order = order;
      plan.optimiser.clip_norm = 0.5;
      SCOPED_TRACE(fmt::format("{} {}", order, ranks));
      expect_loopbacks_bits(job(ranks, plan), one_host(ranks));
    }
}

TEST_F(VirtualTrain, OfPartsGivesLoopbacksBits) {
  struct Mesh {
    int pipeline, tensor;
    const char* schedule;
  };
  for (const Mesh& mesh :
       {Mesh{2, 1, "gpipe"}, Mesh{2, 1, "1f1b"}, Mesh{2, 1, "zb_h1"}, Mesh{1, 2, "1f1b"}, Mesh{2, 2, "zb_h1"},
        Mesh{2, 1, "pipedream"}, Mesh{2, 2, "pipedream"}, Mesh{2, 1, "pipedream_2bw"}})
    for (int replicas : {1, 3})
      for (const auto& [together, in_parts] : {std::pair(true, false), {false, false}, {false, true}}) {
        const bool flushes = program::find_schedule(mesh.schedule).flushes;
        if (in_parts && !flushes) continue;
        auto plan = toy_plan(DType::Float64);
        plan.length.steps = 12;
        plan.batch.micro_batches = 4;
        if (in_parts) {
          plan.exchange.levels[0].topology = "sharded";
          plan.exchange.levels[0].options = {{"parameters", "sharded"}};
        }
        plan.mesh.pipeline = mesh.pipeline;
        plan.mesh.tensor = mesh.tensor;
        plan.pipeline.schedule = mesh.schedule;
        plan.optimiser.clip_norm = flushes ? 0.5 : 0;
        const int ranks = replicas * mesh.pipeline * mesh.tensor;
        TrainingJob divided = job(ranks, plan);
        auto options = model_options(plan);
        options.hidden = 6;
        divided.make_model = [options](int) { return std::make_unique<model::Perceptron>(options); };
        divided.share_memory = together;
        SCOPED_TRACE(fmt::format("{} x {} {} {} {} {}", mesh.pipeline, mesh.tensor, mesh.schedule, ranks,
                                 together, in_parts));
        expect_loopbacks_bits(divided, together ? one_host(ranks) : separate_hosts(ranks));
      }
}

class VirtualMode : public VirtualTrain, public ::testing::WithParamInterface<Mode> {};

TEST_P(VirtualMode, GivesLoopbacksBits) {
  for (int ranks : {2, 4, 16}) {
    auto plan = toy_plan(DType::Float32);
    plan.length.steps = 10;
    plan.exchange.slice_bytes = 64;
    plan.optimiser.clip_norm = 0.5;
    GetParam().apply(plan);
    SCOPED_TRACE(ranks);
    expect_loopbacks_bits(job(ranks, plan), one_host(ranks));
    TrainingJob between = job(ranks, plan);
    between.share_memory = false;
    expect_loopbacks_bits(between, separate_hosts(ranks));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, VirtualMode, ::testing::ValuesIn(modes()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Combinations, VirtualMode, ::testing::ValuesIn(combinations()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Meetings, VirtualMode, ::testing::ValuesIn(meetings()),
                         [](const auto& info) { return info.param.name; });

/// Without a common step the order of arrivals decides, and virtual time decides it the same way each time.
/// A checkpoint is no training; a meeting that is underway when it is written is.
TEST_F(VirtualTrain, ACheckpointsBytesAreLeftOutAndAMeetingsAreNot) {
  auto plan = toy_plan();
  plan.length.steps = 8;
  plan.evaluation.every_epochs = 0;
  plan.exchange.levels = {meets("average", 4)};
  plan.exchange.levels[0].delay = 3;
  plan.exchange.levels[0].collective = "ring";  // of more rounds than what ranks tell each other meanwhile
  TrainingJob without = job(4, plan);
  without.share_memory = false;
  without.make_model = [options = model_options(plan)](int) {
    auto large = options;
    large.hidden = 2000;
    return std::make_unique<model::Perceptron>(large);
  };
  data::MemoryStorage storage;
  TrainingJob with = without;
  with.storage = &storage;
  with.out = "run";
  EXPECT_EQ(run_virtual_training(with, separate_hosts(4)).outcomes[0].bytes_sent_per_step,
            run_virtual_training(without, separate_hosts(4)).outcomes[0].bytes_sent_per_step);
}

TEST_F(VirtualTrain, AsynchronousRunsAreRepeatedBitForBit) {
  for (std::int64_t staleness : {std::int64_t{-1}, std::int64_t{2}}) {
    auto plan = toy_plan(DType::Float32);
    plan.length.steps = 30;
    plan.learning_rate.base = 0.05;
    plan.exchange.levels[0].topology = "servers";
    plan.exchange.levels[0].options = {{"staleness", staleness}, {"apply", 1}};
    TrainingJob training = job(4, plan);
    training.share_memory = false;
    plan::ClusterModel cluster = delayed(separate_hosts(4));
    const auto once = run_virtual_training(training, cluster, 1);
    const auto again = run_virtual_training(training, cluster, 1);
    const auto other = run_virtual_training(training, cluster, 2);
    EXPECT_EQ(once.parameters, again.parameters);
    EXPECT_EQ(once.outcomes[0].staleness, again.outcomes[0].staleness);
    EXPECT_NE(once.parameters, other.parameters);
    EXPECT_GT(once.outcomes[0].staleness.size(), 1u);
  }
}

TEST_F(VirtualTrain, WhatMessagesCostProcessorsChangesNoBit) {
  plan::ClusterModel cluster = separate_hosts(3);
  plan::HostModel& host = cluster.hosts[0];
  host.machine = "lab";
  host.cores = 0.5;
  host.quota_period = 1e-4;
  host.network.fragment = 40;
  host.network.send_time = host.network.receive_time = 2e-6;
  host.network.send_speed = host.network.receive_speed = 100e6;
  cluster.machines = {{"lab", 1}};
  for (const char* collective : {"ring", "halving_doubling"}) {
    auto plan = toy_plan(DType::Float32);
    plan.length.steps = 6;
    plan.exchange.levels[0].collective = collective;
    TrainingJob between = job(3, plan);
    between.share_memory = false;
    expect_loopbacks_bits(between, cluster);
  }
}

TEST_F(VirtualTrain, WithCoarseCollectivesGivesLoopbacksBits) {
  for (const char* collective : {"ring", "tree", "halving_doubling"})
    for (bool share : {false, true}) {
      auto plan = toy_plan(DType::Float32);
      plan.length.steps = 12;
      plan.batch.global = 20;
      plan.exchange.levels[0].collective = share ? "auto" : collective;
      plan.exchange.slice_bytes = 64;
      plan.exchange.in_flight = 2;
      TrainingJob training = job(5, plan);
      training.share_memory = share;
      SCOPED_TRACE(plan.exchange.levels[0].collective);
      const auto expected = run_training(training);
      const VirtualRun run = run_in_world(training, share ? one_host(5) : separate_hosts(5),
                                          {.collectives = sim::Collectives::Coarse});
      if (run.report.failure) std::rethrow_exception(run.report.failure);
      EXPECT_EQ(run.result.outcomes[0].parameter_hash, expected.outcomes[0].parameter_hash);
      EXPECT_EQ(run.result.parameters, expected.parameters);
      EXPECT_EQ(run.report.messages, 0u);
    }
}

TEST_F(VirtualTrain, TheLossOfARankEndsAllAndNamesIt) {
  auto cluster = separate_hosts(4);
  cluster.faults.push_back({.kind = plan::FaultKind::Kill, .rank = 2, .at = 2e-3});
  TrainingJob doomed = job(4, toy_plan());
  doomed.share_memory = false;
  try {
    run_virtual_training(doomed, cluster);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
    EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos) << error.what();
  }
}

/// Whenever it happens: while all begin, too, when some answer others already.
TEST_F(VirtualTrain, TheLossOfARankAtAnyInstantEndsAll) {
  plan::LevelPlan serves{.topology = "servers"}, pairs = meets("average", 1, "pairs");
  for (const plan::LevelPlan& level : {plan::LevelPlan{}, serves, pairs, meets("average", 2)}) {
    auto plan = toy_plan();
    plan.length.steps = 2;
    plan.exchange.levels = {level};
    TrainingJob doomed = job(4, plan);
    doomed.share_memory = false;
    const Duration whole = run_in_world(doomed, separate_hosts(4), {}).report.time;
    const int instants = 250;  // of the first half
    for (int i = 0; i < instants; ++i) {
      SCOPED_TRACE(level.topology + " " + level.rule + " " + std::to_string(i));
      auto cluster = separate_hosts(4);
      cluster.faults.push_back(
          {.kind = plan::FaultKind::Kill, .rank = 2, .at = to_seconds(whole) / 2 * i / instants});
      const VirtualRun run = run_in_world(doomed, cluster, {});
      ASSERT_TRUE(run.report.failure);
      try {
        std::rethrow_exception(run.report.failure);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::PeerLost) << error.what();
      }
    }
  }
}

/// The toy model with invented costs: 1 and 2 ms forward per sample, 3 and 5 ms backward.
class CostedToy : public Train {
 protected:
  TrainingJob costed(int ranks, plan::Plan plan) {
    TrainingJob job = this->job(ranks, std::move(plan));
    job.make_model = [options = model_options(job.plan)](int rank) {
      auto costed = options;
      costed.seed = static_cast<std::uint64_t>(rank);
      costed.hidden_seconds = {1e-3, 3e-3};
      costed.out_seconds = {2e-3, 5e-3};
      return std::make_unique<model::Perceptron>(costed);
    };
    job.share_memory = false;
    return job;
  }
};

VirtualRun run_costed(const TrainingJob& job, const plan::ClusterModel& cluster, sim::Fidelity fidelity) {
  // Everything but the vote's 32 bytes is a phantom.
  return run_in_world(job, cluster, {.fidelity = fidelity, .seed = 1, .phantom_above = 32});
}

TEST_F(CostedToy, TimingTakesExactsTimeWithoutTouchingAPayload) {
  for (int ranks : {1, 2, 5})
    for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward})
      for (const char* rule : {"adamw", "momentum"}) {
        SCOPED_TRACE(std::string(plan::to_string(overlap)) + " " + rule + " " + std::to_string(ranks));
        auto plan = toy_plan(DType::Float32);
        plan.length.steps = 6;
        plan.exchange.overlap = overlap;
        plan.exchange.slice_bytes = 64;
        plan.optimiser.rule = rule;
        plan.report.hash_steps = 2;
        if (ranks == 2) plan.precision.compute = DType::BFloat16;
        const TrainingJob job = costed(ranks, plan);
        const VirtualRun exact = run_costed(job, separate_hosts(ranks), sim::Fidelity::Exact);
        const VirtualRun timing = run_costed(job, separate_hosts(ranks), sim::Fidelity::Timing);
        ASSERT_FALSE(exact.report.failure);
        ASSERT_FALSE(timing.report.failure);
        EXPECT_EQ(timing.report.time, exact.report.time);
        EXPECT_EQ(timing.report.trace, exact.report.trace);
        EXPECT_EQ(timing.result.outcomes[0].bytes_sent_per_step,
                  exact.result.outcomes[0].bytes_sent_per_step);
        EXPECT_EQ(timing.result.recorders[0].steps.size(), 6u);
        EXPECT_EQ(timing.result.outcomes[0].parameter_hash, 0u);  // a declared outcome
        EXPECT_NE(exact.result.outcomes[0].parameter_hash, 0u);
      }
}

TEST_F(CostedToy, AStepTakesWhatTheHandComputes) {
  auto plan = toy_plan(DType::Float32);
  plan.length.steps = 4;
  plan.batch.global = 8;  // 4 samples a rank
  plan.exchange.overlap = plan::Overlap::Backward;
  plan.exchange.bucket_bytes = 1 << 20;  // one bucket, complete at the end of the backward pass
  plan.exchange.slice_bytes = 1 << 20;
  plan.exchange.levels[0].collective = "ring";
  plan.optimiser.rule = "sgd";
  const VirtualRun run = run_costed(costed(2, plan), separate_hosts(2), sim::Fidelity::Timing);
  ASSERT_FALSE(run.report.failure);
  // hidden.weight 30, hidden.bias 5, out.weight 15, out.bias 3, idle 3, each slot of a multiple of 16 values.
  const double bytes = (32 + 16 + 16 + 16 + 16) * sizeof(float);
  const double ring = 2 * (10e-6 + bytes / 2 / 1e9);
  const double compute = 4 * (1e-3 + 2e-3 + 3e-3 + 5e-3);
  for (std::size_t step = 1; step < 4; ++step) {
    const train::StepReport& report = run.result.recorders[0].steps[step];
    EXPECT_NEAR(to_seconds(report.step_time), compute + ring, 1e-8) << step;
    EXPECT_NEAR(to_seconds(report.exposed), ring, 1e-8) << step;
  }
}

/// Whoever waits for whom, in whichever discipline: what a rank says of a step's time adds up to it.
TEST_F(CostedToy, TimesOfAStepAddUpToIt) {
  plan::LevelPlan averages{.rule = "average", .period = 3}, serves{.topology = "servers"};
  plan::LevelPlan asynchronous{.topology = "servers", .options = {{"staleness", -1}, {"apply", 1}}};
  for (const plan::LevelPlan& level : {plan::LevelPlan{}, averages, serves, asynchronous})
    for (const auto overlap : {plan::Overlap::Forward, plan::Overlap::Backward}) {
      SCOPED_TRACE(level.topology + " " + level.rule + " " + std::string(plan::to_string(overlap)));
      auto plan = toy_plan(DType::Float32);
      plan.length.steps = 12;
      plan.evaluation.every_epochs = 0;
      plan.exchange.overlap = overlap;
      plan.exchange.slice_bytes = 64;
      plan.exchange.levels = {level};
      auto cluster = separate_hosts(3);
      cluster.stragglers = {{.rank = 2, .slowdown = 3}};
      const VirtualRun run = run_costed(costed(3, plan), cluster, sim::Fidelity::Timing);
      ASSERT_FALSE(run.report.failure);
      for (const Recorder& recorder : run.result.recorders) {
        ASSERT_GT(recorder.steps.size(), 3u);
        for (const train::StepReport& report : recorder.steps)
          EXPECT_NEAR(to_seconds(report.compute + report.exposed + report.data_wait),
                      to_seconds(report.step_time), 0.01 * to_seconds(report.step_time))
              << "step " << report.step;
      }
    }
}

TEST_F(CostedToy, BucketsGoWhenTheModelSaysThatTheyAreComplete) {
  auto plan = toy_plan(DType::Float32);
  plan.length.steps = 4;
  plan.batch.global = 8;
  plan.exchange.overlap = plan::Overlap::Backward;
  plan.exchange.bucket_bytes = 80;  // the out segment's weight and bias are the first
  plan.exchange.levels[0].collective = "ring";
  auto cluster = separate_hosts(2);
  cluster.hosts[0].network.bandwidth = 1e4;  // 38 ms for all values
  const VirtualRun early = run_costed(costed(2, plan), cluster, sim::Fidelity::Timing);
  plan.exchange.bucket_bytes = 1 << 20;
  const VirtualRun late = run_costed(costed(2, plan), cluster, sim::Fidelity::Timing);
  ASSERT_FALSE(early.report.failure);
  ASSERT_FALSE(late.report.failure);
  // The out segment's gradients travel for the 12 ms of the hidden one's backward pass.
  EXPECT_NEAR(
      to_seconds(late.result.recorders[0].steps[2].step_time - early.result.recorders[0].steps[2].step_time),
      12e-3, 1e-4);
}

}  // namespace
}  // namespace taxon::test
