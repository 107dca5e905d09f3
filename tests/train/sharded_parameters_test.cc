// Ranks that keep parts of the parameters alone, and gather them before each use, train as those that have
// all of them (ZeRO-3).
#include <gmock/gmock.h>

#include "exchange/extensions.h"
#include "plan/legality.h"
#include "support/errors.h"
#include "train/modes.h"
#include "train/toy_job.h"
#include "train/virtual_run.h"

namespace taxon::test {
namespace {

using ::testing::HasSubstr;

class ShardedParameters : public Train {
 protected:
  ShardedParameters() {
    plan_ = toy_plan();
    plan_.optimiser.rule = "adamw";
    plan_.optimiser.weight_decay = 0.01;
    plan_.learning_rate.base = 0.02;
    plan_.exchange.slice_bytes = 64;
    // Sums in the order of the ranks, however the buckets are cut.
    plan_.exchange.levels = {level("data", "sharded", "direct")};
  }
  static plan::Plan in_parts(plan::Plan plan, int prefetch = 0) {
    for (plan::LevelPlan& level : plan.exchange.levels)
      if (level.topology == "sharded") level.options = {{"parameters", "sharded"}, {"prefetch", prefetch}};
    return plan;
  }
  static plan::Plan with_ring(plan::Plan plan) {
    plan.exchange.gradients = plan::GradientMemory::Ring;
    plan.exchange.order = plan::BucketOrder::Backward;
    return plan;
  }
  plan::Plan plan_;
};

TEST_F(ShardedParameters, GiveTheBitsOfShardedState) {
  for (double clip : {0.0, 0.05})
    for (int micro_batches : {1, 3})
      for (int ranks : {1, 2, 3, 4}) {
        plan_.optimiser.clip_norm = clip;
        if (clip > 0) plan_.exchange.bucket_bytes = 1;  // squares are added bucket by bucket: the same ones
        plan_.batch.micro_batches = micro_batches;
        const auto expected = run_training(job(ranks, plan_));
        for (int prefetch : {0, 1})
          for (bool ring : {false, true}) {
            SCOPED_TRACE(testing::Message()
                         << clip << " " << micro_batches << " " << ranks << " " << prefetch << " " << ring);
            const plan::Plan plan = in_parts(plan_, prefetch);
            const auto result = run_training(job(ranks, ring ? with_ring(plan) : plan));
            EXPECT_EQ(result.parameters, expected.parameters);
            for (const auto& outcome : result.outcomes)
              EXPECT_EQ(outcome.parameter_hash, expected.outcomes[0].parameter_hash);
            EXPECT_EQ(result.outcomes[0].test.scores.means.counts,
                      expected.outcomes[0].test.scores.means.counts);
            ASSERT_EQ(result.recorders[0].steps.size(), expected.recorders[0].steps.size());
            for (std::size_t step = 0; step < expected.recorders[0].steps.size(); ++step)
              EXPECT_EQ(result.recorders[0].steps[step].gradient_norm,
                        expected.recorders[0].steps[step].gradient_norm)
                  << step;
          }
      }
}

TEST_F(ShardedParameters, AreNoMoreThanARanksPartAndWhatIsUsed) {
  constexpr int kRanks = 4;
  const auto held = [&](const plan::Plan& plan) {
    TrainingJob training = job(kRanks * plan.mesh.tensor, plan);
    auto options = model_options(plan);
    options.hidden = 600;
    options.idle = 2400;  // so that both segments have as much
    training.make_model = [options](int) { return std::make_unique<model::Perceptron>(options); };
    return run_training(training).recorders[0].info.arenas;
  };
  plan_.length.steps = 2;
  plan_.exchange.bucket_bytes = plan_.exchange.slice_bytes = 4096;
  plan_.exchange.in_flight = 1;
  const train::ArenaBytes replicated = held([&] {
    plan::Plan plan = plan_;
    plan.exchange.levels = {level("data", "all_reduce")};
    return plan;
  }());
  const train::ArenaBytes state = held(plan_), all = held(with_ring(in_parts(plan_)));
  EXPECT_LT(state.total(), replicated.total());
  // A part, and the larger of two segments.
  EXPECT_LT(all.weights, 0.85 * static_cast<double>(state.weights));
  EXPECT_GT(all.weights, 0.6 * static_cast<double>(state.weights));
  EXPECT_LT(all.optimiser, 0.3 * static_cast<double>(replicated.optimiser));
  EXPECT_LT(all.total(), 0.6 * static_cast<double>(replicated.total()));
  plan_.mesh.tensor = 2;
  const train::ArenaBytes of_a_member = held(plan_), parts = held(in_parts(plan_));
  // Members share the first segment and half of the second.
  EXPECT_LT(parts.weights, of_a_member.weights);
}

/// A share of the test set has more batches than another, and a batch of the step fewer samples than ranks.
TEST_F(ShardedParameters, AreGatheredByRanksWithoutSamplesToo) {
  plan_.batch.global = 5;
  plan_.evaluation.batch = 2;  // of 10, 9, 9 and 9 samples
  const auto expected = run_training(job(4, plan_));
  const auto result = run_training(job(4, in_parts(plan_)));
  EXPECT_EQ(result.parameters, expected.parameters);
  EXPECT_EQ(result.outcomes[0].test.scores.means.counts, expected.outcomes[0].test.scores.means.counts);
  EXPECT_NEAR(result.outcomes[0].test.loss, expected.outcomes[0].test.loss, 1e-12);
}

TEST_F(ShardedParameters, OfOneWorldGoOnInAnyOther) {
  plan_.batch.micro_batches = 2;
  plan::Plan replicated = plan_;
  replicated.exchange.levels = {level("data", "all_reduce")};
  const auto expected = run_training(job(1, replicated));
  plan::Plan stages = replicated;
  stages.mesh.pipeline = 2;
  plan::Plan parts_of_stages = in_parts(plan_);
  parts_of_stages.mesh.pipeline = 2;
  const std::pair<int, plan::Plan> worlds[] = {
      {1, replicated},         {2, stages},         {2, plan_}, {3, with_ring(in_parts(plan_))},
      {4, in_parts(plan_, 1)}, {6, parts_of_stages}};
  for (const auto& from : worlds)
    for (const auto& to : worlds) {
      SCOPED_TRACE(testing::Message() << from.first << " to " << to.first);
      data::MemoryStorage storage;
      TrainingJob first = stopping(job(from.first, from.second), 20, &storage);
      // Stages have nobody to tell them other weights than the seed's.
      const auto same = [options = model_options(plan_)](int) {
        return std::make_unique<model::Perceptron>(options);
      };
      first.make_model = same;
      run_training(first);
      TrainingJob rest = going_on(job(to.first, to.second), &storage);
      rest.make_model = same;
      const auto resumed = run_training(rest);
      EXPECT_GT(resumed.recorders[0].info.start_samples, 0);
      const auto tensors = parameters_in(storage, "run", model::Perceptron(model_options(plan_)).spec());
      std::vector<double> values;
      for (const auto& tensor : tensors)
        for (double value : as_span<double>(ConstView(tensor.bytes.data(), tensor.bytes.size())))
          values.push_back(value);
      EXPECT_LT(relative_distance(expected.parameters, values), 1e-12);
    }
}

/// Each rank keeps parts of what its place on the axes of stages and members has.
TEST_F(ShardedParameters, OfDividedModelsTrainAsOneRankDoes) {
  plan_.batch.micro_batches = 3;
  const auto divided = [&](int replicas, const plan::Plan& plan, data::MemoryStorage* storage) {
    TrainingJob training = job(replicas * plan.mesh.pipeline * plan.mesh.tensor, plan);
    auto options = model_options(plan);
    options.hidden = 6;  // which two members can share
    training.make_model = [options](int) { return std::make_unique<model::Perceptron>(options); };
    training.storage = storage;
    training.out = "run";
    return training;
  };
  const auto trained = [&](const data::MemoryStorage& storage) {
    std::vector<double> values;
    for (const auto& tensor : parameters_in(storage, "run", model::Perceptron(model_options(plan_)).spec()))
      for (double value : as_span<double>(ConstView(tensor.bytes.data(), tensor.bytes.size())))
        values.push_back(value);
    return values;
  };
  for (double clip : {0.0, 0.05}) {
    plan_.optimiser.clip_norm = clip;
    data::MemoryStorage alone;
    const auto expected = run_training(divided(1, plan_, &alone));
    for (const auto& [pipeline, tensor, schedule] :
         {std::tuple(2, 1, "gpipe"), {2, 1, "zb_h1"}, {1, 2, "1f1b"}, {2, 2, "1f1b"}})
      for (int replicas : {1, 2, 3}) {
        plan::Plan plan = plan_;
        plan.mesh.pipeline = pipeline;
        plan.mesh.tensor = tensor;
        plan.pipeline.schedule = schedule;
        data::MemoryStorage whole;
        const auto state = run_training(divided(replicas, plan, &whole));
        for (int prefetch : {0, 1}) {
          SCOPED_TRACE(testing::Message() << replicas << " x " << tensor << " x " << pipeline << " "
                                          << schedule << " " << prefetch << " " << clip);
          data::MemoryStorage storage;
          const auto result = run_training(divided(replicas, in_parts(plan, prefetch), &storage));
          EXPECT_LT(relative_distance(trained(alone), trained(storage)), 1e-12);
          if (clip == 0) {  // squares are added bucket by bucket
            EXPECT_EQ(result.outcomes[0].parameter_hash, state.outcomes[0].parameter_hash);
          }
          for (const auto& outcome : result.outcomes)
            EXPECT_EQ(outcome.parameter_hash, result.outcomes[0].parameter_hash);
          EXPECT_EQ(result.outcomes[0].test.scores.means.counts,
                    expected.outcomes[0].test.scores.means.counts);
          EXPECT_NEAR(result.outcomes[0].test.loss, expected.outcomes[0].test.loss, 1e-11);
        }
      }
  }
}

TEST_F(ShardedParameters, ComeOutAsTheyWentInWhereSomeAreFrozen) {
  plan_.model.frozen = {"hidden.bias"};
  const auto expected = run_training(job(3, plan_));
  EXPECT_EQ(run_training(job(3, in_parts(plan_))).parameters, expected.parameters);
}

TEST_F(ShardedParameters, TravelInTheTypeThatIsComputedIn) {
  const auto sent = [&](const plan::Plan& plan) {
    TrainingJob training = job(4, plan);
    auto options = model_options(plan);
    options.hidden = 4000;
    training.make_model = [options](int) { return std::make_unique<model::Perceptron>(options); };
    training.share_memory = false;
    return run_training(training).outcomes[0].bytes_sent_per_step;
  };
  plan_ = toy_plan(DType::Float32);
  plan_.length.steps = 6;
  plan_.evaluation.every_epochs = 0;
  plan_.exchange.levels = {level("data", "sharded", "ring")};
  plan_.exchange.bucket_bytes = plan_.exchange.slice_bytes = 1 << 20;
  const double hidden = 4 * 4000 * (kInputs + 1), out = 4 * 4000 * kClasses, all = hidden + out, share = 0.75;
  EXPECT_NEAR(sent(plan_), share * 2 * all, 0.02 * all);
  // The last segment's passes follow each other.
  EXPECT_NEAR(sent(in_parts(plan_)), share * (all + 2 * hidden + out), 0.02 * all);
  // Both are there at once.
  EXPECT_NEAR(sent(in_parts(plan_, 1)), share * 2 * all, 0.02 * all);
  plan_.precision.compute = DType::BFloat16;
  EXPECT_NEAR(sent(in_parts(plan_)), share * (all + (2 * hidden + out) / 2), 0.02 * all);
}

TEST_F(ShardedParameters, AreTheSameInTheVirtualWorld) {
  plan_.exchange.levels[0].collective = "ring";
  TrainingJob training = job(4, with_ring(in_parts(plan_)));
  training.share_memory = false;
  const auto real = run_training(training);
  const auto simulated = run_virtual_training(training, delayed(separate_hosts(4)), 1);
  EXPECT_EQ(simulated.outcomes[0].parameter_hash, real.outcomes[0].parameter_hash);
  EXPECT_EQ(simulated.parameters, real.parameters);
}

TEST_F(ShardedParameters, AreRefusedWhereTheyMakeNoSense) {
  const plan::Catalogue known = exchange::catalogue();
  const auto said = [&](const plan::Plan& plan) {
    std::string all;
    for (const plan::Problem& problem : plan::check_plan(plan, 4, known)) all += problem.sentence + "\n";
    return all;
  };
  const plan::Plan legal = in_parts(plan_);
  EXPECT_EQ(said(legal), said(plan_));
  plan::Plan plan = legal;
  plan.mesh.tensor = plan.mesh.pipeline = 2;
  plan.batch.micro_batches = 2;
  EXPECT_EQ(said(plan), "");
  plan.pipeline.activations = plan::Activations::Recomputed;
  EXPECT_THAT(said(plan), HasSubstr("pipeline.activations is recomputed"));
  plan.pipeline.activations = plan::Activations::Kept;
  plan.pipeline.schedule = "pipedream";
  EXPECT_THAT(said(plan), HasSubstr("pipeline.schedule is pipedream"));
  plan = with_ring(legal);
  plan.mesh.tensor = 2;
  EXPECT_THAT(said(plan), HasSubstr("exchange.gradients is ring"));
  plan = legal;
  plan.exchange.delay = 1;
  EXPECT_THAT(said(plan), HasSubstr("exchange.delay is 1"));
  plan = legal;
  plan.exchange.levels = {level("node", "sharded"), level("across", "sharded")};
  plan.exchange.levels[0].options = {{"parameters", "sharded"}};
  EXPECT_THAT(said(plan), HasSubstr("that over across has not"));
  plan = legal;
  plan.exchange.levels[0].rule = "average";
  EXPECT_THAT(said(plan), HasSubstr("replicas meet by rule average"));
}

}  // namespace
}  // namespace taxon::test
