// Losses, gradients and weights that are not finite, in every way of training.
#include "exchange/divergence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/checkpoint.h"
#include "codec/codec.h"
#include "data/memory_storage.h"
#include "train/modes.h"
#include "train/poisoned.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

using testing::HasSubstr;

plan::LevelPlan coded(const std::string& codec, plan::LevelPlan level = {}) {
  level.codec.name = codec;
  return level;
}

/// Every way of training that there is, with codecs that would hide what is not finite.
std::vector<Mode> families() {
  std::vector<Mode> all = modes();
  for (const auto& more : {combinations(), meetings()}) all.insert(all.end(), more.begin(), more.end());
  auto by = [](plan::LevelPlan level, int servers = 0) {
    return [level, servers](plan::Plan& plan) {
      plan.exchange.levels = {level};
      plan.mesh.servers = servers;
    };
  };
  all.push_back({"dedicated_server", by(served(), 1)});
  for (const char* codec : {"top_k", "sign", "int8", "count_sketch", "one_bit"})
    for (const codec::CodecRow& row : codec::codec_table())
      if (row.name == codec) {
        all.push_back({std::string("coded_by_") + codec, by(coded(codec))});
        if (codec::stands_alone(row))
          all.push_back({std::string("served_by_") + codec, by(coded(codec, served()))});
      }
  all.push_back({"coded_meeting", by(coded("int8", meets("average", 2)))});
  for (Mode& mode : all)
    mode.apply = [apply = mode.apply](plan::Plan& plan) {
      apply(plan);
      for (const plan::LevelPlan& level : plan.exchange.levels)
        if (level.codec.name != "none") plan.precision = {DType::Float32, DType::Float32};
    };
  return all;
}

std::vector<Mode> free_families() {
  auto by = [](plan::LevelPlan level, int servers = 0) {
    return [level, servers](plan::Plan& plan) {
      plan.exchange.levels = {level};
      plan.mesh.servers = servers;
    };
  };
  plan::LevelPlan across = asynchronous();
  across.group = plan::LevelGroup::Across;
  return {{"asynchronous", by(asynchronous())},
          {"dedicated", by(asynchronous(), 1)},
          {"bounded", by(served(2, 0, 1))},
          {"pairs", by(meets("average", 1, "pairs"))},
          {"nodes", [across](plan::Plan& plan) {
             plan.exchange.levels = {level("node", "sharded"), across};
             plan.mesh.node = 2;
           }}};
}

class Divergence : public Train, public ::testing::WithParamInterface<Mode> {
 protected:
  plan::Plan family_plan(plan::OnDivergence on_divergence = plan::OnDivergence::Stop) {
    plan::Plan plan = toy_plan();
    plan.exchange.slice_bytes = 64;
    plan.length.steps = 12;
    plan.learning_rate.schedule = "constant";
    plan.on_divergence = on_divergence;
    GetParam().apply(plan);
    return plan;
  }
  /// The first update makes weights that no float32 holds.
  static void reach_too_far(plan::Plan& plan) {
    plan.precision = {DType::Float32, DType::Float32};
    plan.optimiser.rule = "sgd";
    plan.learning_rate.base = 1e300;
  }
  TrainingJob poisoned(plan::Plan plan, std::vector<Poison> poisons) {
    TrainingJob job = this->job(4, std::move(plan));
    job.make_model = [options = model_options(job.plan), poisons](int rank) {
      auto own = options;
      own.seed = static_cast<std::uint64_t>(rank);
      return std::make_unique<Poisoned>(own, rank, poisons);
    };
    return job;
  }
  /// The sentence of the error that ends the job.
  static std::string divergence_of(const TrainingJob& job) {
    try {
      run_training(job);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Diverged) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "the run ended well";
    return {};
  }
  static bool is_finite(const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  }
};

class InEveryFamily : public Divergence {};

TEST_P(InEveryFamily, TheStepTheBucketAndTheRankAreNamed) {
  data::MemoryStorage storage;
  TrainingJob job = poisoned(family_plan(), {{.step = 5, .rank = 1}});
  job.plan.checkpoint.every_steps = 2;
  job.storage = &storage;
  job.out = "run";
  const std::string sentence = divergence_of(job);
  EXPECT_THAT(sentence, HasSubstr("step 6: the gradient of bucket"));
  EXPECT_THAT(sentence, HasSubstr("at rank 1 is not finite"));
  EXPECT_FALSE(storage.exists("run/model.safetensors"));
  const auto newest = checkpoint::find_latest(storage, "run");
  ASSERT_TRUE(newest);
  EXPECT_EQ(checkpoint::find_not_finite(checkpoint::load(storage, *newest)), std::nullopt);
}

TEST_P(InEveryFamily, RatesThatAreTooLargeEndTheRun) {
  plan::Plan plan = family_plan();
  reach_too_far(plan);
  divergence_of(job(4, plan));
}

TEST_P(InEveryFamily, ASkippedStepChangesNothing) {
  plan::Plan plan = family_plan(plan::OnDivergence::Skip);
  if (plan.exchange.gradients == plan::GradientMemory::Ring) return;  // not legal
  const auto with = run_training(poisoned(plan, {{.step = 0, .rank = 1}}));
  const auto without = run_training(poisoned(plan, {{.what = Poison::What::Nothing, .step = 0}}));
  EXPECT_EQ(with.parameters, without.parameters);
  EXPECT_EQ(with.outcomes[0].skipped, 1);
  EXPECT_EQ(without.outcomes[0].skipped, 0);
  EXPECT_TRUE(with.recorders[0].steps[0].skipped);
  EXPECT_TRUE(std::isnan(with.recorders[0].steps[0].loss));
  EXPECT_FALSE(std::signbit(with.recorders[0].steps[0].loss)) << "it would be printed as -nan";
  EXPECT_FALSE(with.recorders[0].steps[1].skipped);
  EXPECT_TRUE(std::isfinite(with.outcomes[0].train_loss));
  EXPECT_THAT(with.recorders[0].notices,
              testing::Contains(testing::AllOf(HasSubstr("step 1 is skipped"), HasSubstr("at rank 1"))));
}

TEST_P(InEveryFamily, StepsAreSkippedOnTheWayAndARunThatWasInterruptedGoesOnAsWell) {
  plan::Plan plan = family_plan(plan::OnDivergence::Skip);
  if (plan.exchange.gradients == plan::GradientMemory::Ring) return;
  const std::vector<Poison> poisons = {{.step = 4, .rank = 3}, {.step = 5}, {.step = 11, .rank = 0}};
  TrainingJob whole = poisoned(plan, poisons);
  const auto expected = run_training(whole);
  EXPECT_EQ(expected.outcomes[0].skipped, plan.mesh.servers > 0 ? 2 : 3);
  EXPECT_TRUE(is_finite(expected.parameters));
  data::MemoryStorage storage;
  TrainingJob saving = whole;
  saving.plan.checkpoint.every_steps = 6;
  saving.storage = &storage;
  saving.out = "run";
  EXPECT_EQ(run_training(saving).parameters, expected.parameters);
}

TEST_P(InEveryFamily, IgnoredItGoesOnAndTheLastFiniteCheckpointStays) {
  plan::Plan plan = family_plan(plan::OnDivergence::Ignore);
  plan.checkpoint.every_steps = 2;
  plan.checkpoint.keep = 1;
  data::MemoryStorage storage;
  TrainingJob job = poisoned(plan, {{.step = 5}});
  job.storage = &storage;
  job.out = "run";
  const auto result = run_training(job);
  if (is_finite(result.parameters)) return;  // a codec kept it from the weights
  const auto found = checkpoint::load_newest(storage, "run", checkpoint::Weights::Finite);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->checkpoint.steps, 4);
  EXPECT_EQ(checkpoint::find_not_finite(found->checkpoint), std::nullopt);
  EXPECT_EQ(storage.list("run/checkpoints").size(), 3u) << "latest, the newest, and the last finite one";
}

INSTANTIATE_TEST_SUITE_P(Families, InEveryFamily, ::testing::ValuesIn(families()),
                         [](const auto& info) { return info.param.name; });

class WhereNobodyWaits : public Divergence {};

TEST_P(WhereNobodyWaits, TheRankIsNamed) {
  const std::string sentence = divergence_of(poisoned(family_plan(), {{.step = 1, .rank = 1}}));
  EXPECT_THAT(sentence, HasSubstr(": the gradient of bucket"));
  EXPECT_THAT(sentence, HasSubstr("at rank 1"));
}

TEST_P(WhereNobodyWaits, AWorkerSkipsAlone) {
  plan::Plan plan = family_plan(plan::OnDivergence::Skip);
  plan.length.steps = 40;
  const auto result = run_training(poisoned(plan, {{.step = 1, .rank = 1}}));
  EXPECT_TRUE(is_finite(result.parameters));
  EXPECT_TRUE(std::isfinite(result.outcomes[0].train_loss));
  EXPECT_GE(result.outcomes[0].skipped, 1);
  for (const auto& outcome : result.outcomes) EXPECT_EQ(outcome.skipped, result.outcomes[0].skipped);
}

INSTANTIATE_TEST_SUITE_P(Families, WhereNobodyWaits, ::testing::ValuesIn(free_families()),
                         [](const auto& info) { return info.param.name; });

class OneFamily : public Divergence {
 protected:
  /// One worker, whose weights are many enough for several threads to update them.
  TrainingJob alone(plan::Plan plan, int team, std::vector<Poison> poisons = {},
                    std::int64_t bucket_bytes = 8 << 20) {
    plan.exchange.bucket_bytes = plan.exchange.slice_bytes = bucket_bytes;
    plan.length.steps = 5;
    TrainingJob job = this->job(1, std::move(plan));
    job.make_model = [options = model_options(job.plan), team, poisons](int rank) {
      auto own = options;
      own.hidden = 24000;
      return std::make_unique<Poisoned>(own, rank, poisons, team);
    };
    return job;
  }
};
INSTANTIATE_TEST_SUITE_P(Families, OneFamily, ::testing::Values(modes()[0]),
                         [](const auto& info) { return info.param.name; });

TEST_P(OneFamily, SkippingEndsWhereTheWeightsThemselvesAreLost) {
  plan::Plan plan = family_plan(plan::OnDivergence::Skip);
  reach_too_far(plan);
  EXPECT_THAT(divergence_of(job(4, plan)), HasSubstr("a weight of rank"));
}

TEST_P(OneFamily, AWorkerAloneUpdatesByTheTeamThatItComputesWith) {
  for (const char* rule : {"momentum", "adamw"}) {
    plan::Plan plan = family_plan();
    plan.optimiser.rule = rule;
    plan.precision = {DType::Float32, DType::Float32};
    const auto expected = run_training(alone(plan, 1)).outcomes[0].parameter_hash;
    for (int team : {2, 3})
      for (std::int64_t bucket_bytes : {8 << 20, 200 << 10})  // one bucket, and several
        EXPECT_EQ(run_training(alone(plan, team, {}, bucket_bytes)).outcomes[0].parameter_hash, expected);
  }
}

TEST_P(OneFamily, AWorkerAloneNamesTheBucketToo) {
  for (double clip_norm : {0.0, 1.0})
    for (int team : {1, 2}) {
      plan::Plan plan = family_plan();
      plan.optimiser.clip_norm = clip_norm;
      const std::string sentence = divergence_of(alone(plan, team, {{.step = 2}}));
      EXPECT_THAT(sentence, HasSubstr("step 3: the gradient of bucket 0 (")) << team << " " << clip_norm;
      plan.on_divergence = plan::OnDivergence::Skip;
      EXPECT_EQ(run_training(alone(plan, team, {{.step = 2}})).outcomes[0].skipped, 1);
    }
}

TEST_P(OneFamily, TheLastUpdateIsLookedAt) {
  plan::Plan plan = family_plan();
  reach_too_far(plan);
  plan.length.steps = 1;
  for (const char* out : {"", "run"}) {
    data::MemoryStorage storage;
    TrainingJob once = job(2, plan);
    once.storage = &storage;
    once.out = out;
    divergence_of(once);
    EXPECT_EQ(checkpoint::find_latest(storage, "run"), std::nullopt);
  }
}

TEST_P(OneFamily, ARunGoesOnFromFiniteWeightsOrFromAnyIfItIgnoresThem) {
  plan::Plan plan = family_plan(plan::OnDivergence::Ignore);
  plan.checkpoint.every_steps = 2;
  data::MemoryStorage storage;
  TrainingJob first = stopping(poisoned(plan, {{.step = 5}}), 8, &storage);
  run_training(first);
  TrainingJob rest = going_on(job(4, plan), &storage);
  rest.plan.on_divergence = plan::OnDivergence::Stop;
  const auto result = run_training(rest);
  EXPECT_EQ(result.recorders[0].info.start_step, 4);
  EXPECT_TRUE(is_finite(result.parameters));
  EXPECT_THAT(result.recorders[0].notices, testing::Contains(HasSubstr("weights that are not finite")));
}

TEST_P(OneFamily, NoticesOfSkippedStepsGetFewer) {
  std::vector<Poison> poisons;
  plan::Plan plan = family_plan(plan::OnDivergence::Skip);
  plan.length.steps = 40;
  for (std::int64_t step = 2; step < 38; ++step) poisons.push_back({.step = step});
  const auto result = run_training(poisoned(plan, poisons));
  EXPECT_EQ(result.outcomes[0].skipped, 36);
  int said = 0;
  for (const std::string& notice : result.recorders[0].notices)
    said += notice.find("skipped") != std::string::npos;
  EXPECT_EQ(said, 7) << "1 to 4, 8, 16 and 32";
  EXPECT_THAT(result.recorders[0].notices, testing::Contains(HasSubstr("4 ranks' losses or gradients")));
}

}  // namespace
}  // namespace taxon::test
