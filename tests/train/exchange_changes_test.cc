// A checkpoint may be gone on from with another exchange: what holds of the old one, and what is refused.
#include "train/start/exchange_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "checkpoint/checkpoint.h"
#include "data/memory_storage.h"
#include "train/modes.h"
#include "train/toy_job.h"

namespace taxon::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class ExchangeChanges : public Train {
 protected:
  static constexpr int kStop = 10;
  /// Stops after kStop steps of `before` and goes on with `after`.
  TrainingResult run(const plan::Plan& before, const plan::Plan& after) {
    data::MemoryStorage storage;
    run_training(stopping(job(4, before), kStop, &storage));
    return run_training(going_on(job(4, after), &storage));
  }
  std::string refusal(const plan::Plan& before, const plan::Plan& after) {
    try {
      run(before, after);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      return error.what();
    }
    return "";
  }
  static plan::Plan with(plan::LevelPlan level) {
    plan::Plan plan = toy_plan();
    plan.exchange.levels = {std::move(level)};
    return plan;
  }
  static plan::Plan coded(const std::string& codec) {
    plan::Plan plan = toy_plan(DType::Float32);
    plan.exchange.levels[0].codec.name = codec;
    return plan;
  }
};

TEST_F(ExchangeChanges, BucketsAreCutAnewWhereTheyWouldBeOthers) {
  plan::Plan before = toy_plan(), after = before;
  after.exchange.bucket_bytes = 1 << 20;
  EXPECT_FALSE(train::cuts_alike(before.exchange, after.exchange));
  const auto kept = run(before, before), anew = run(before, after);
  EXPECT_GT(kept.recorders[0].info.plan.resolved.buckets.size(), 1U);
  EXPECT_EQ(anew.recorders[0].info.plan.resolved.buckets.size(), 1U);
  EXPECT_EQ(anew.outcomes[0].end, train::Outcome::End::Complete);
}

TEST_F(ExchangeChanges, WhatACodecKeepsOfThemDecidesBucketsAndNothingElseOfIt) {
  plan::ExchangePlan before, after;
  after.levels[0].codec.decay = 0.5;
  after.in_flight = 7;
  after.levels[0].collective = "ring";
  EXPECT_TRUE(train::cuts_alike(before, after));
  for (void (*change)(plan::CodecPlan&) : {+[](plan::CodecPlan& codec) { codec.name = "auto"; },
                                           +[](plan::CodecPlan& codec) { codec.name = "top_k"; },
                                           +[](plan::CodecPlan& codec) { codec.global = true; },
                                           +[](plan::CodecPlan& codec) { codec.dense_below = 9; }}) {
    after = before;
    change(after.levels[0].codec);
    EXPECT_FALSE(train::cuts_alike(before, after));
  }
}

TEST_F(ExchangeChanges, ACodecWithOtherMemoryBeginsAfresh) {
  for (const auto& [before, after] :
       {std::pair{"top_k", "power_sgd"}, {"power_sgd", "top_k"}, {"none", "top_k"}, {"top_k", "none"}}) {
    SCOPED_TRACE(std::string(before) + ", then " + after);
    const auto result = run(coded(before), coded(after));
    EXPECT_EQ(result.outcomes[0].end, train::Outcome::End::Complete);
    EXPECT_EQ(result.outcomes[0].steps, toy_plan().length.steps);
    EXPECT_EQ(result.outcomes[3].parameter_hash, result.outcomes[0].parameter_hash);
  }
  EXPECT_THAT(run(coded("top_k"), coded("power_sgd")).recorders[0].notices,
              Contains(HasSubstr("starts as in a fresh run")));
}

/// Errors are no estimates of gradients, and one codec's lasting values are not another's.
TEST_F(ExchangeChanges, MemoryOfAnotherMeaningIsNotTakenOver) {
  plan::Plan memory = coded("top_k"), difference = memory;
  memory.exchange.levels[0].codec.feedback = plan::FeedbackKind::Memory;
  difference.exchange.levels[0].codec.feedback = plan::FeedbackKind::Difference;
  EXPECT_THAT(run(memory, difference).recorders[0].notices,
              Contains(HasSubstr("has no level 0 estimates of gradients, level 0 sum of estimates of this")));
  EXPECT_THAT(run(difference, memory).recorders[0].notices,
              Contains(HasSubstr("has no level 0 errors of this")));
  EXPECT_THAT(run(coded("power_sgd"), coded("adaptive_threshold")).recorders[0].notices,
              Contains(HasSubstr("has no level 0 factors adaptive_threshold of this")));
}

/// Where buckets are cut otherwise, tensors lie in another order.
TEST_F(ExchangeChanges, StateOfReplicasFollowsItsTensorsOrIsRefused) {
  auto cut = [](const char* topology, int dense_below) {
    plan::Plan plan = toy_plan(DType::Float32);
    plan::LevelPlan level = meets("outer_momentum", 6, topology);
    level.momentum = 0.9;
    level.codec = {
        .name = "top_k", .dense_below = dense_below, .options = {{"density", 1}}};  // loses nothing
    plan.exchange.levels = {level};
    plan.exchange.bucket_bytes = 60;
    plan.model.frozen = {"idle"};
    return plan;
  };
  auto order = [](const TrainingResult& result) {
    std::vector<std::string> names;
    for (const plan::BucketPlan& bucket : result.recorders[0].info.plan.resolved.buckets)
      names.insert(names.end(), bucket.parameters.begin(), bucket.parameters.end());
    return names;
  };
  const auto kept = run(cut("all_reduce", 0), cut("all_reduce", 0));
  const auto anew = run(cut("all_reduce", 0), cut("all_reduce", 20));
  ASSERT_NE(order(kept), order(anew));
  EXPECT_LT(relative_distance(kept.parameters, anew.parameters), 1e-5);
  try {
    run(cut("sharded", 0), cut("sharded", 20));
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Checkpoint);
    EXPECT_THAT(error.what(), HasSubstr("has no anchor of this size and order"));
  }
}

/// With differences from what each has, replicas that trained apart would never be equal again.
TEST_F(ExchangeChanges, ReplicasAgreeOnWhatTheyMeetWithInAnotherWay) {
  plan::Plan before = with(meets("average", 7));
  before.precision = {DType::Float32, DType::Float32};
  before.length.steps = 14;
  for (const char* name : {"agreed", "common"}) {
    SCOPED_TRACE(name);
    plan::Plan after = before;
    if (std::string(name) == "agreed")
      after.exchange.levels[0].codec.name = "int8";
    else
      after.exchange.levels[0].topology = "significant";
    data::MemoryStorage storage;
    run_training(stopping(job(4, before), kStop, &storage));
    const auto result = run_training(going_on(job(4, after), &storage));
    ASSERT_LT(result.recorders[0].info.start_step, 14);
    const std::string prefix = std::string("meets level 0 ") + name;
    EXPECT_THAT(result.recorders[0].notices, Contains(HasSubstr(prefix)));
    const auto saved = checkpoint::load(storage, *checkpoint::find_latest(storage, "run"));
    EXPECT_EQ(saved.steps, 14);
    std::map<std::string, std::vector<std::byte>> first;
    for (const auto& tensors : saved.per_rank)
      for (const auto& tensor : tensors)
        if (tensor.name.starts_with(prefix + "/")) {
          EXPECT_EQ(first.try_emplace(tensor.name, tensor.bytes).first->second, tensor.bytes) << tensor.name;
        }
    EXPECT_FALSE(first.empty());
  }
}

TEST_F(ExchangeChanges, ADelayedStepNeedsAPlaceForItsSums) {
  plan::Plan delayed = with(level("data", "sharded")), ring = delayed;
  delayed.exchange.delay = 1;
  ring.exchange.gradients = plan::GradientMemory::Ring;
  ring.exchange.order = plan::BucketOrder::Backward;
  const plan::Plan at_servers = with(served());
  EXPECT_THAT(refusal(delayed, ring), HasSubstr("gradients: ring"));
  EXPECT_THAT(refusal(delayed, at_servers), HasSubstr("servers"));
  EXPECT_EQ(refusal(delayed, with(level("data", "all_reduce"))), "");
  EXPECT_EQ(refusal(with(level("data", "all_reduce")), at_servers), "");
}

TEST_F(ExchangeChanges, AnswersThatAreOnTheirWayKeepTheirDay) {
  const plan::LevelPlan meeting = meets("average", 8);
  plan::LevelPlan late = meeting;
  late.delay = 5;  // a meeting after step 8 is adopted after step 13
  EXPECT_THAT(refusal(with(meeting), with(late)), HasSubstr("period 8, fragments 1, delay 0"));
  EXPECT_THAT(refusal(with(late), with(meeting)), HasSubstr("delay 5"));
  EXPECT_EQ(refusal(with(late), with(late)), "");
  late.delay = 2;  // of which nothing is left after step 10
  EXPECT_EQ(refusal(with(meeting), with(late)), "");
}

}  // namespace
}  // namespace taxon::test
